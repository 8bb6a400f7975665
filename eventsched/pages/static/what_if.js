// The page What-if: a configuration is checked as it is typed, and a run shows how far it is. Without
// this module its forms load the page with the result.

import { element } from "./elements.js";
import { fetchApi, notice, post, showParts } from "./shell.js";

const PAUSE = 400; // ms without a key before a configuration is checked
const IN_URL = ["from", "until", "nodes"];

let run = null;
let check = null;
let timer = 0;

const place = (id) => document.getElementById(id);

// --- the configuration as it is typed ---------------------------------------------------------

function showCheck(isWrong, ...children) {
  const shown = place("check");
  shown.classList.toggle("wrong", isWrong);
  shown.replaceChildren(...children);
  shown.hidden = !children.length;
  place("configuration").setAttribute("aria-invalid", String(isWrong));
}

const list = (items) => element("ul", {}, ...items.map((item) => element("li", {}, ...item)));

function problem({ where, problem, remedy }) {
  const end = remedy ? element("span", { class: "quiet" }, `; ${remedy}`) : null;
  return [element("strong", {}, `${where.replace(/^configuration: /, "")}:`), ` ${problem}`, end];
}

function profiles(answer) {
  return Object.entries(answer.profiles).map(([name, points]) => {
    const plugins = [...(points.filter ?? []), ...(points.score ?? [])].length;
    const scores = (points.score ?? []).join(", ");
    return [element("strong", {}, name), ` ${plugins} plugins filter and score; scores: `, element("code", {}, scores || "none")];
  });
}

async function checkTyped() {
  const text = place("configuration").value;
  check?.abort();
  const own = (check = new AbortController());
  if (!text.trim()) return showCheck(false);
  try {
    const answer = await fetchApi("/configuration/check", own.signal, text);
    const warnings = answer.warnings.map((each) => [each]);
    if (answer.problems.length) showCheck(true, list([...answer.problems.map(problem), ...warnings]));
    else showCheck(false, list([...profiles(answer), ...warnings]));
  } catch (error) {
    if (error.name !== "AbortError") showCheck(true, error.message);
  }
}

document.addEventListener("input", (event) => {
  if (event.target.id !== "configuration") return;
  clearTimeout(timer);
  timer = setTimeout(checkTyped, PAUSE);
});

// --- the pods that differ ---------------------------------------------------------------------

// The title of each column is a button that sorts the rows which are there.
function makeSortable() {
  for (const head of document.querySelectorAll("#outcome th[data-sorts]:not(:has(button))")) {
    const button = element("button", { type: "button", class: "sorts", title: "Sort by it" });
    button.append(...head.childNodes);
    head.append(button);
  }
}

function sortBy(head) {
  const body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending";
  const text = (row) => row.cells[head.cellIndex].textContent.trim();
  const compare = head.dataset.sorts === "number"
    ? (one, other) => Number(text(one)) - Number(text(other))
    : (one, other) => text(one).localeCompare(text(other), "en", { numeric: true });
  const rows = [...body.rows].sort((one, other) => (down ? compare(other, one) : compare(one, other)));
  for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.sorts");
  if (button) sortBy(button.closest("th"));
});

makeSortable();

// --- a run ------------------------------------------------------------------------------------

function showProgress({ done, total }) {
  const bar = place("run").querySelector("progress");
  if (total) bar.value = done / total;
  else bar.removeAttribute("value");
  const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
  place("run-text").textContent = total ? `${count(done)} of ${count(total)} records` : "Reading the state at the beginning";
}

// Also the stream: there may be several once a result was kept.
function keepInUrl(form) {
  const url = new URL(form.action);
  for (const name of IN_URL) if (form.elements[name].value) url.searchParams.set(name, form.elements[name].value);
  url.hash = "";
  history.replaceState(null, "", url);
}

async function start(form) {
  run?.abort();
  const own = (run = new AbortController());
  const isTrial = form.dataset.ask === "try";
  if (!isTrial) keepInUrl(form);
  showProgress({ done: 0, total: 0 });
  if (isTrial) place("run-text").textContent = "Trying";
  notice("");
  place("run-state").textContent = "The run has begun.";
  place("run").hidden = false;
  place("run").scrollIntoView({ block: "nearest" });
  place("outcome").setAttribute("aria-busy", "true");
  try {
    const page = await post(form, own.signal, showProgress);
    // Without the form it is about the page: the log has gone, or the right to see it.
    if (!page.getElementById("outcome")) throw new Error(page.querySelector("[data-problem] p")?.textContent);
    getSelection().removeAllRanges(); // a part with selected text is not replaced
    showParts(page);
    makeSortable();
    place("outcome").focus({ preventScroll: true });
    place("outcome").scrollIntoView();
  } catch (error) {
    if (error.name !== "AbortError") notice(`There is no result: ${error.message}`);
  } finally {
    if (run === own) {
      place("run").hidden = true;
      place("run-state").textContent = "";
      place("outcome").removeAttribute("aria-busy");
    }
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-ask]") || event.submitter?.value === "change") return;
  event.preventDefault();
  start(event.target);
});

document.addEventListener("click", (event) => {
  if (event.target.id !== "cancel") return;
  run?.abort();
  document.querySelector('form[data-ask="what-if"] button[type="submit"]')?.focus();
});
