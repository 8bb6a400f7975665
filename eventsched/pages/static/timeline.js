// Zooms the timeline of a pod. Without this module the timeline is whole.

import { element } from "./elements.js";
import { onAnswer } from "./shell.js";

const STEP = 2;
const CLOSEST = 1000; // µs that fill the width at least
const LEAST = 0.15; // percent of the width that a moment has

const DAY = 86_400_000_000; // µs
const VIRTUAL = 3650; // days after 1970 in which simulations are
const wholes = new WeakMap(); // what an axis says of the whole time

let view = null; // { begin, end } in µs, or null for all

function timeText(at) {
  const [day, clock] = new Date(at / 1000).toISOString().replace("Z", "").split("T");
  const days = Math.floor(at / DAY);
  if (days >= VIRTUAL) return `${day} ${clock}`;
  return days ? `day ${days}, ${clock}` : clock;
}

// Beside the bars is when what is shown begins and ends.
function drawAxis(axis) {
  wholes.set(axis, wholes.get(axis) ?? [...axis.childNodes]);
  if (view === null) axis.replaceChildren(...wholes.get(axis));
  else axis.replaceChildren(...[view.begin, view.end].map((at) => element("span", {}, timeText(at))));
}

function draw() {
  const timeline = document.querySelector(".timeline");
  if (timeline === null) return;
  const whole = { begin: Number(timeline.dataset.begin), end: Number(timeline.dataset.end) };
  const { begin, end } = view ?? whole;
  drawAxis(timeline.querySelector(".axis p"));
  for (const bar of timeline.querySelectorAll("a[data-from]")) {
    const from = Math.max(Number(bar.dataset.from), begin), to = Math.min(Number(bar.dataset.to), end);
    const rect = bar.querySelector("rect");
    bar.toggleAttribute("hidden", to < from);
    const width = Math.max(LEAST, (100 * (to - from)) / (end - begin));
    rect.setAttribute("x", `${Math.min((100 * (from - begin)) / (end - begin), 100 - width)}%`);
    rect.setAttribute("width", `${width}%`);
  }
}

// Shows a part of what is shown now: `factor` times as long, around `middle` (0 to 1).
function zoom(factor, middle) {
  const timeline = document.querySelector(".timeline");
  const whole = { begin: Number(timeline.dataset.begin), end: Number(timeline.dataset.end) };
  const now = view ?? whole;
  const length = Math.min(whole.end - whole.begin, Math.max(CLOSEST, (now.end - now.begin) * factor));
  const at = now.begin + (now.end - now.begin) * middle;
  const begin = Math.max(whole.begin, Math.min(at - length * middle, whole.end - length));
  view = length >= whole.end - whole.begin ? null : { begin, end: begin + length };
  draw();
}

function prepare() {
  const place = document.getElementById("zoom");
  if (place === null || place.childElementCount > 0) return;
  const choices = [
    ["Zoom in at the start", "Zoom in at the start", () => zoom(1 / STEP, 0)],
    ["at the end", "Zoom in at the end", () => zoom(1 / STEP, 1)],
    ["All", "Show all of it", () => { view = null; draw(); }],
  ];
  for (const [text, label, chosen] of choices) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", chosen);
    place.append(button);
  }
}

onAnswer(() => {
  prepare();
  if (view !== null) draw();
});
