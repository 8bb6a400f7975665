// The slider over time: shows the time that it is at while it moves, and then loads the page as of it.

import { go } from "./shell.js";

const PAUSE = 300; // ms without a further move
let timer = 0;

function shownText(slider) {
  const at = new Date(Number(slider.dataset.begin) + Number(slider.value));
  const [day, rest] = at.toISOString().split("T");
  const clock = rest.slice(0, 8);
  if (slider.dataset.virtual !== "true") return `${day} ${clock}`;
  const days = Math.floor(at.getTime() / 86400000);
  return days ? `day ${days}, ${clock}` : clock;
}

function isAtEnd(slider) {
  return Number(slider.value) + Number(slider.step) > Number(slider.max);
}

async function load(slider) {
  const own = timer;
  const at = new Date(Number(slider.dataset.begin) + Number(slider.value)).toISOString();
  const isPast = new URL(location.href).searchParams.has("at");
  await go({ at: isAtEnd(slider) ? null : at, cursor: null, offset: null }, { replace: isPast });
  if (own === timer) document.body.removeAttribute("aria-busy");
}

document.addEventListener("input", ({ target }) => {
  if (target.id !== "moment-range") return;
  clearTimeout(timer);
  const text = isAtEnd(target) ? "now" : shownText(target);
  target.setAttribute("aria-valuetext", text);
  document.getElementById("moment-text").textContent = text;
});
document.addEventListener("change", ({ target }) => {
  if (target.id !== "moment-range") return;
  clearTimeout(timer);
  document.body.setAttribute("aria-busy", "true");
  timer = setTimeout(() => load(target), PAUSE);
});
