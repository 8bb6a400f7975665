// The page What-if: a configuration is checked as it is typed, a run shows how far it is, and what is
// typed stays with the page's entry in the history. Without this module its forms load the page with
// the result.

import { count, element } from "./elements.js";
import { fetchApi, notice, onAnswer, post, pushUrl, refresh, showParts } from "./shell.js";

const PAUSE = 400; // ms without a key before a configuration is checked, and what is typed is kept

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
  if (isWrong) document.querySelector("#configuration + .field-problem")?.remove(); // says it, too
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

// The profiles in force that the typed configuration has not: nothing would schedule their pods. A
// name that is new may be a mistyped one.
function missingProfiles(answer) {
  const inForce = JSON.parse(place("configuration").dataset.profiles);
  const added = Object.keys(answer.profiles).filter((name) => !inForce.includes(name));
  const meant = (name) => (added.length ? `; did you mean ${name} instead of ${added.join(" or ")}?` : "");
  return inForce
    .filter((name) => !(name in answer.profiles))
    .map((name) => [`no profile is named ${name}: pods with this schedulerName would not be scheduled${meant(name)}`]);
}

// Behind each weight in force the one of the checked configuration, if it is another one.
function showTypedWeights(checked) {
  for (const old of document.querySelectorAll("#in-force .typed")) {
    const item = old.closest("li");
    if (item.dataset.plugin) old.remove();
    else item.remove();
  }
  if (!Object.keys(checked).length) return;
  for (const list of document.querySelectorAll("#in-force [data-profile]")) {
    const scores = checked[list.dataset.profile]?.score ?? [];
    const typed = new Map(scores.map((each) => each.split("=")));
    const mark = (text) => element("strong", { class: "typed" }, `${text} as typed`);
    for (const item of list.children) {
      const { plugin, weight } = item.dataset;
      const own = typed.get(plugin);
      typed.delete(plugin);
      if (own !== weight) item.append(" ", mark(`→ ${own === undefined ? "off" : `×\u00a0${own}`}`));
    }
    for (const [plugin, weight] of typed) list.append(element("li", {}, `${plugin} `, mark(`×\u00a0${weight}`)));
  }
}

function showFilledWith(isSo) {
  const said = place("filled-with");
  if (said) said.hidden = !isSo;
}

async function checkTyped() {
  const { value: text, defaultValue } = place("configuration");
  showFilledWith(text === defaultValue);
  check?.abort();
  const own = (check = new AbortController());
  if (!text.trim()) {
    showTypedWeights({});
    return showCheck(false);
  }
  try {
    const answer = await fetchApi("/configuration/check", own.signal, text);
    showTypedWeights(answer.profiles);
    const warnings = answer.warnings.map((each) => [each]);
    const missing = answer.problems.length ? [] : missingProfiles(answer);
    if (answer.problems.length) showCheck(true, list([...answer.problems.map(problem), ...warnings]));
    else showCheck(missing.length > 0, list([...missing, ...profiles(answer), ...warnings]));
  } catch (error) {
    if (error.name !== "AbortError") showCheck(true, error.message);
  }
}

document.addEventListener("input", (event) => {
  if (!event.target.closest("form[data-ask]")) return;
  const isConfiguration = event.target.id === "configuration";
  if (isConfiguration) showFilledWith(event.target.value === event.target.defaultValue);
  clearTimeout(timer);
  timer = setTimeout(() => {
    keepTyped();
    if (isConfiguration) checkTyped();
  }, PAUSE);
});

// The weight in force of the plugin whose weight is to change.
function showWeight() {
  const plugin = document.querySelector('input[name="plugin"]');
  if (!plugin) return;
  const known = [...plugin.list.options].find((option) => option.value === plugin.value.trim());
  const weight = known?.getAttribute("label");
  place("weight-in-force").textContent = weight ? ` (in force: ${weight})` : "";
}

document.addEventListener("input", (event) => {
  if (event.target.name === "plugin") showWeight();
});

// A weight in force leads to its field; the address of the link would drop what is typed.
document.addEventListener("click", (event) => {
  const link = event.target.closest(".weights a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  place("usual-changes").open = true;
  const { plugin, weight } = link.closest("form").elements;
  plugin.value = link.closest("li").dataset.plugin;
  plugin.dispatchEvent(new Event("input", { bubbles: true }));
  weight.focus();
});

// --- what is typed, for Back and a reload -----------------------------------------------------

const FIELDS = 'form[data-ask] :is(input:not([type="hidden"]), select, textarea)';
const nameOf = (field) => `${field.form.dataset.ask} ${field.name}`;
const valueOf = (field) => (field.type === "checkbox" ? field.checked : field.value);

function typed() {
  return Object.fromEntries([...document.querySelectorAll(FIELDS)].map((field) => [nameOf(field), valueOf(field)]));
}

function fillIn(values) {
  for (const field of document.querySelectorAll(FIELDS)) {
    const value = values[nameOf(field)];
    if (value !== undefined) field[field.type === "checkbox" ? "checked" : "value"] = value;
  }
}

function keepTyped() {
  clearTimeout(timer);
  if (document.querySelector(FIELDS)) history.replaceState({ ...history.state, typed: typed() }, "");
}

onAnswer(() => {
  const isTyped = Boolean(history.state?.typed);
  if (isTyped) {
    fillIn(history.state.typed);
    showWeight();
  }
  if (place("configuration") && (isTyped || "differs" in place("configuration").dataset)) checkTyped();
});
// A browser keeps the entry's state when a link leads to the same address.
document.addEventListener("click", (event) => {
  if (event.target.id !== "reset" || event.ctrlKey || event.metaKey || event.shiftKey) return;
  removeEventListener("beforeunload", keepTyped);
  clearTimeout(timer);
  history.replaceState({ ...history.state, typed: null }, "");
});
addEventListener("beforeunload", keepTyped); // at pagehide it would be too late
addEventListener("popstate", () => clearTimeout(timer)); // the fields are those of another entry

// --- the pods that differ ---------------------------------------------------------------------

// Another page or order of them keeps what is typed in both forms.
document.addEventListener("click", async (event) => {
  const turn = event.target.closest("#outcome a.turns");
  if (!turn || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  keepTyped();
  pushUrl(turn.href, { typed: typed() });
  await refresh({ isWhole: true });
  place("differences")?.focus({ preventScroll: true });
  place("differences")?.scrollIntoView();
});

// --- a run ------------------------------------------------------------------------------------

function showProgress({ done, total }) {
  const bar = place("run").querySelector("progress");
  if (total) bar.value = done / total;
  else bar.removeAttribute("value");
  place("run-text").textContent = total ? `${count(done)} of ${count(total)} records` : "Reading the state at the beginning";
}

// The configuration and the nodes as the button of the usual changes has made them.
function adoptChanges(form, page) {
  for (const fresh of page.querySelector(`form[data-ask="${form.dataset.ask}"]`).elements) {
    if (fresh.name && fresh.type !== "hidden" && fresh.type !== "submit") {
      form.elements[fresh.name][fresh.type === "checkbox" ? "checked" : "value"] = valueOf(fresh);
    }
  }
  // As high as the server makes it for this text, so that no line of the change is cut off.
  place("configuration").rows = page.getElementById("configuration").rows;
  showWeight();
  checkTyped();
}

// The field that the answer is about, if something is wrong with it, and what.
function markFields(page) {
  for (const old of document.querySelectorAll(".field-problem")) old.remove();
  for (const field of document.querySelectorAll(FIELDS)) {
    const fresh = page.querySelector(`form[data-ask="${field.form.dataset.ask}"] [name="${field.name}"]`);
    for (const name of ["aria-invalid", "aria-describedby"]) {
      if (fresh?.hasAttribute(name)) field.setAttribute(name, fresh.getAttribute(name));
      else field.removeAttribute(name);
    }
    const problem = fresh?.nextElementSibling;
    const isSaid = field.id === "configuration" && place("check").matches(".wrong:not([hidden])");
    if (problem?.matches(".field-problem") && !isSaid) field.after(document.importNode(problem, true));
  }
}

// A result has an address of its own; what was typed stays with the one before, too.
function showResult(page, form, adopts) {
  const { address } = page.getElementById("outcome").dataset;
  keepTyped();
  if (adopts) adoptChanges(form, page);
  if (address && address !== location.search) pushUrl(`${address}#outcome`, { typed: typed() });
  else keepTyped();
  getSelection().removeAllRanges(); // a part with selected text is not replaced
  const wrong = page.querySelector("form[data-ask] [autofocus]")?.name;
  for (const each of page.querySelectorAll("[autofocus]")) each.removeAttribute("autofocus"); // is for a page that is loaded
  showParts(page);
  markFields(page);
  if (wrong) focusWrong(form.elements[wrong]);
  else {
    place("outcome").focus({ preventScroll: true });
    place("outcome").scrollIntoView();
  }
}

// The field that something is wrong with, so that it can be corrected at once.
function focusWrong(field) {
  field.focus({ preventScroll: true });
  (place("problem-text") ?? field).scrollIntoView({ block: "center" });
}

async function start(form, button) {
  run?.abort();
  const own = (run = new AbortController());
  const isChange = button?.value === "change";
  const changes = form.querySelectorAll("#usual-changes input");
  const adopts = isChange || [...changes].some(valueOf); // "Decide again" makes them, too
  showProgress({ done: 0, total: 0 });
  if (form.dataset.ask === "try") place("run-text").textContent = "Trying";
  else if (isChange) place("run-text").textContent = "Checking";
  notice("");
  place("run-state").textContent = "The run has begun.";
  place("run").hidden = false;
  place("run").scrollIntoView({ block: "nearest" });
  place("outcome").setAttribute("aria-busy", "true");
  try {
    const page = await post(form, button, own.signal, showProgress);
    // Without the form it is about the page: the log has gone, or the right to see it.
    if (!page.getElementById("outcome")) throw new Error(page.querySelector("[data-problem] p")?.textContent);
    if (form.isConnected) showResult(page, form, adopts); // else another page is shown by now
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
  if (!event.target.matches("form[data-ask]")) return;
  event.preventDefault();
  start(event.target, event.submitter);
});

document.addEventListener("click", (event) => {
  if (event.target.id !== "cancel") return;
  run?.abort();
  document.querySelector('form[data-ask="what-if"] button[type="submit"]')?.focus();
});
