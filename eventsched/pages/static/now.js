// The page Now: how full each node is, as a cell on a canvas.

import { count } from "./elements.js";
import { onAnswer } from "./shell.js";

const STEPS = 8;
let answer = null;
let resource = "";
let chosen = -1;

const canvas = () => document.getElementById("nodes");

function colours() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    steps: Array.from({ length: STEPS }, (_, step) => value(`--fill-${step}`)),
    none: value("--fill-none"),
    over: value("--bad"),
    mark: value("--text"),
  };
}

function layout(count, width) {
  const pitch = Math.max(6, Math.min(24, Math.floor(Math.sqrt((width * 360) / Math.max(1, count)))));
  const perRow = Math.max(1, Math.floor(width / pitch));
  return { pitch, perRow, height: Math.ceil(count / perRow) * pitch };
}

function draw() {
  const place = canvas();
  if (!place || !answer?.nodes) return;
  const values = answer.nodes.filled[resource];
  const width = place.parentElement.clientWidth;
  const { pitch, perRow, height } = layout(values.length, width);
  const ratio = devicePixelRatio || 1;
  place.width = width * ratio;
  place.height = height * ratio;
  const context = place.getContext("2d");
  context.scale(ratio, ratio);
  const { steps, none, over, mark } = colours();
  const gap = pitch > 9 ? 2 : 1;
  values.forEach((value, index) => {
    const step = Math.min(STEPS - 1, Math.floor((value ?? 0) * STEPS));
    context.fillStyle = value === null ? none : value > 1 ? over : steps[step];
    context.fillRect((index % perRow) * pitch, Math.floor(index / perRow) * pitch, pitch - gap, pitch - gap);
  });
  if (chosen >= 0 && chosen < values.length) {
    context.strokeStyle = mark;
    context.lineWidth = 2;
    context.strokeRect((chosen % perRow) * pitch - 0.5, Math.floor(chosen / perRow) * pitch - 0.5, pitch - gap + 1, pitch - gap + 1);
  }
}

function percent(value) {
  return value === null ? "–" : `${Math.round(value * 100)} %`;
}

function say() {
  const hint = document.getElementById("node-hint");
  const { names, filled } = answer.nodes;
  const text =
    chosen < 0
      ? `${count(names.length)} node${names.length === 1 ? "" : "s"}`
      : `${names[chosen]}: ${Object.keys(filled).map((name) => `${name} ${percent(filled[name][chosen])}`).join(", ")}`;
  if (hint.textContent !== text) hint.textContent = text;
}

function choose(index) {
  if (index === chosen) return;
  chosen = index;
  draw();
  say();
}

function open() {
  if (chosen < 0) return;
  const url = new URL(`/nodes/${encodeURIComponent(answer.nodes.names[chosen])}`, location.href);
  const here = new URL(location.href).searchParams;
  for (const name of ["stream", "at"]) if (here.has(name)) url.searchParams.set(name, here.get(name));
  location.href = url;
}

function listen(place) {
  const at = (event) => {
    const box = place.getBoundingClientRect();
    const { pitch, perRow } = layout(answer.nodes.names.length, box.width);
    const [column, row] = [Math.floor((event.clientX - box.left) / pitch), Math.floor((event.clientY - box.top) / pitch)];
    const index = row * perRow + column;
    return column < perRow && index < answer.nodes.names.length ? index : -1;
  };
  place.addEventListener("pointermove", (event) => choose(at(event)));
  place.addEventListener("pointerleave", () => choose(-1));
  place.addEventListener("click", (event) => {
    choose(at(event));
    open();
  });
  place.addEventListener("keydown", (event) => {
    const { perRow } = layout(answer.nodes.names.length, place.clientWidth);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow }[event.key];
    if (step) {
      event.preventDefault();
      choose(Math.max(0, Math.min(answer.nodes.names.length - 1, chosen < 0 ? 0 : chosen + step)));
    } else if (event.key === "Enter") {
      open();
    } else if (event.key === "Escape") {
      choose(-1);
    }
  });
}

// What the map shows, for its legend and for screen readers.
function nameMap() {
  const all = answer.nodes.names.length;
  const nodes = `${count(all)} node${all === 1 ? "" : "s"}`;
  canvas().setAttribute("aria-label", `Map of ${nodes} by requested ${resource}`);
  document.querySelector("#node-legend [data-resource]").textContent = resource;
}

function showResources() {
  const place = document.getElementById("resources");
  const names = Object.keys(answer.nodes.filled);
  if (!names.includes(resource)) resource = names[0];
  if (place.childElementCount === names.length) return;
  place.replaceChildren(
    ...names.map((name) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.setAttribute("aria-pressed", String(name === resource));
      button.addEventListener("click", () => {
        resource = name;
        for (const each of place.children) each.setAttribute("aria-pressed", String(each === button));
        nameMap();
        draw();
      });
      return button;
    }),
  );
}

onAnswer((fresh) => {
  answer = fresh;
  const place = canvas();
  if (!place || !answer.nodes || !Object.keys(answer.nodes.filled).length) return;
  const map = document.getElementById("node-map");
  if (map.hidden) {
    map.hidden = false;
    listen(place);
  }
  showResources();
  nameMap();
  draw();
  say();
});
addEventListener("resize", draw);
addEventListener("themechange", draw);
