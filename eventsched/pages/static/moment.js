// The slider over time: shows the time that it is at while it moves, also above its thumb, and then loads
// the page as of it.

import { go } from "./shell.js";

const PAUSE = 300; // ms without a further move
const THUMB = 16; // px that browsers make it wide
let timer = 0;
let isPlanned = false; // a time was chosen and is not asked for yet
let isHeld = false; // the pointer is down on the slider

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

function textOf(slider) {
  return isAtEnd(slider) ? "now" : shownText(slider);
}

// The time above the thumb, as far as it is within the slider.
function mark(slider) {
  const place = document.getElementById("moment-mark");
  place.textContent = textOf(slider);
  place.hidden = false;
  const [width, own] = [slider.clientWidth, place.offsetWidth];
  const thumb = THUMB / 2 + (Number(slider.value) / Number(slider.max)) * (width - THUMB);
  place.style.left = `${Math.max(0, Math.min(width - own, thumb - own / 2))}px`;
}

function unmark() {
  const place = document.getElementById("moment-mark");
  if (place) place.hidden = true;
}

async function load(slider) {
  isPlanned = false;
  const own = timer;
  const at = new Date(Number(slider.dataset.begin) + Number(slider.value)).toISOString();
  const isPast = new URL(location.href).searchParams.has("at");
  await go({ at: isAtEnd(slider) ? null : at, cursor: null, offset: null }, { replace: isPast });
  if (own !== timer) return;
  document.body.removeAttribute("aria-busy");
  if (!document.activeElement.matches("#moment-range:focus-visible")) unmark();
}

function plan(slider) {
  clearTimeout(timer);
  isPlanned = true;
  document.body.setAttribute("aria-busy", "true");
  if (!isHeld) timer = setTimeout(() => load(slider), PAUSE);
}

document.addEventListener("input", ({ target }) => {
  if (target.id !== "moment-range") return;
  clearTimeout(timer);
  const text = textOf(target);
  target.setAttribute("aria-valuetext", text);
  document.getElementById("moment-text").textContent = text;
  const live = document.querySelector('.moment [data-part="moment"] a.button');
  live?.classList.toggle("on", isAtEnd(target));
  const place = document.querySelector(".moment .place"); // of the time before
  if (place) place.hidden = true;
  mark(target); // the slider has its width now
});
document.addEventListener("change", ({ target }) => {
  if (target.id === "moment-range") plan(target);
});
// With the keyboard the time stays above the thumb as long as the slider has the focus.
document.addEventListener("focusin", ({ target }) => {
  if (target.matches("#moment-range:focus-visible")) mark(target);
});
document.addEventListener("focusout", ({ target }) => {
  if (target.id === "moment-range") unmark();
});
addEventListener("resize", unmark);
// While it is held only the label changes.
document.addEventListener("pointerdown", ({ target }) => {
  if (target.id !== "moment-range") return;
  isHeld = true;
  clearTimeout(timer);
});
for (const kind of ["pointerup", "pointercancel"]) {
  document.addEventListener(kind, () => {
    if (!isHeld) return;
    isHeld = false;
    const slider = document.getElementById("moment-range");
    if (isPlanned && slider) plan(slider);
  });
}
// A label of another length moves what is beside the slider: a browser would drag the link that is now
// where the pointer went down, and end the drag of the slider.
document.addEventListener("dragstart", (event) => {
  if (isHeld) event.preventDefault();
});
