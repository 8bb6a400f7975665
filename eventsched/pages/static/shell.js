// What every page has: colours, token, and the way to load another answer into the page.
// Modules of single pages use: onAnswer, onStep, go, pushUrl, refresh, fetchApi, fetchPage, post, showParts, notice.

const TOKEN = "eventsched-token";
const THEME = "eventsched-theme";
const EVERY = 2000; // ms between two looks while live
const SOON = 250; // ms at first, while a part of the page waits for what the server reads
const SLOWEST = 30000; // ms at most, while the server does not answer
const SLOWEST_PROBLEM = 60000; // ms at most, while its answer is a problem

const listeners = [];
const steps = [];
let tag = "";
let failures = 0;
let problems = 0; // answers in a row that were one
let looks = 0; // since a part of the page waits
let timer = 0;
let loading = null;
let owesWhole = false; // another page was asked for and is not shown yet
let address = addressOf(location);

function addressOf({ pathname, search }) {
  return pathname + search;
}

function stored(area, name, value) {
  try {
    if (value === undefined) return area.getItem(name);
    if (value === null) area.removeItem(name);
    else area.setItem(name, value);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  return null;
}

// --- requests ---------------------------------------------------------------------------------

function headers() {
  const token = stored(sessionStorage, TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** The JSON of a path below /api/v1, by POST if there is a body. Throws an Error with the problem as its message, and its `remedy`. */
export async function fetchApi(call, signal, body) {
  const method = body === undefined ? "GET" : "POST";
  const response = await fetch(`/api/v1${call}`, { method, headers: headers(), signal, body });
  const document = await response.json().catch(() => ({}));
  if (response.ok) return document;
  const words = [document.where, document.detail || response.statusText, document.remedy];
  const error = new Error(words.filter(Boolean).join(": "));
  error.status = response.status;
  error.remedy = document.remedy;
  throw error;
}

/** The page at a URL as a Document, and the response. */
export async function fetchPage(url, signal) {
  const response = await fetch(url, { headers: { ...headers(), Accept: "text/html" }, signal });
  return { page: pageOf(await response.text()), response };
}

function pageOf(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

/** Posts a form, by its button. `listener` gets the progress; what comes back is the page as a Document. */
export async function post(form, button, signal, listener) {
  const body = new URLSearchParams(new FormData(form));
  if (button?.name) body.append(button.name, button.value);
  const response = await fetch(form.action, {
    method: "POST", body, signal,
    headers: { ...headers(), Accept: "text/event-stream" },
  });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return pageOf(await response.text());
  let rest = "";
  for await (const text of texts(response)) {
    const blocks = (rest + text).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      if (kind === "page") return pageOf(JSON.parse(data));
      if (kind === "progress") listener(JSON.parse(data));
    }
  }
  throw new Error("the server ended the answer early; ask again");
}

async function* texts(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// --- the answer in the page -------------------------------------------------------------------

function answerOf(page) {
  return JSON.parse(page.getElementById("answer")?.textContent || "null");
}

/** Calls `listener` with the answer of the page, now and whenever another one is loaded. */
export function onAnswer(listener) {
  listeners.push(listener);
  const answer = answerOf(document);
  if (answer !== null) listener(answer);
}

function isInUse(part) {
  if (part.querySelector("input:active")) return true; // a slider is being moved
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
}

// The place of the focused element in its part, to find it again in the new one.
function placeOf(part) {
  const place = [];
  for (let at = document.activeElement; at !== part; at = at.parentElement) {
    place.unshift([...at.parentElement.children].indexOf(at));
  }
  return place;
}

// What is open stays open. New ones come before the others, so they are counted from the end.
function keepOpen(part, fresh) {
  const [old, later] = [part, fresh].map((each) => [...each.querySelectorAll("details")].reverse());
  old.forEach((each, place) => {
    if (each.open && later[place]) later[place].open = true;
  });
}

function replacePart(part, fresh) {
  keepOpen(part, fresh);
  if (part.isEqualNode(fresh) || isInUse(part)) return;
  const place = part.contains(document.activeElement) && document.activeElement !== part ? placeOf(part) : null;
  const adopted = document.importNode(fresh, true);
  part.replaceWith(adopted);
  if (place) place.reduce((at, index) => at?.children[index], adopted)?.focus({ preventScroll: true });
}

// The bar with the time is above what is replaced, so that a slider keeps the focus.
function showTime(page) {
  const [bar, fresh] = [document, page].map((each) => each.querySelector(".moment"));
  if (bar && fresh) {
    bar.className = fresh.className;
    showParts(page, bar);
  } else if (bar) {
    bar.remove();
  } else if (fresh) {
    document.querySelector("main").before(document.importNode(fresh, true));
  }
}

// A frame that was loaded without data has not loaded what its page needs.
function loadMissing(page) {
  for (const wanted of page.querySelectorAll("head script[src], head link[rel=stylesheet]")) {
    const name = wanted.localName === "script" ? "src" : "href";
    const url = wanted.getAttribute(name);
    if ([...document.querySelectorAll(wanted.localName)].some((each) => each.getAttribute(name) === url)) continue;
    const element = document.createElement(wanted.localName);
    for (const attribute of wanted.attributes) element.setAttribute(attribute.name, attribute.value);
    if (wanted.localName === "script") element.async = false;
    document.head.append(element);
  }
}

/** Replaces the parts that differ by those of another page. */
export function showParts(page, place = document) {
  for (const part of place.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (fresh) replacePart(part, fresh);
  }
}

function show(page, isWhole) {
  if (isWhole) {
    loadMissing(page);
    for (const each of page.querySelectorAll("[autofocus]")) each.removeAttribute("autofocus"); // is for a page that is loaded
    document.title = page.title;
    document.querySelector("main").replaceWith(document.importNode(page.querySelector("main"), true));
    document.querySelector(".top").replaceWith(document.importNode(page.querySelector(".top"), true));
    document.body.dataset.live = page.body.dataset.live;
    showTime(page);
    prepare();
    document.querySelector(':is(main, .moment) [aria-invalid="true"]')?.focus();
  } else {
    showParts(page);
  }
  document.getElementById("answer").textContent = page.getElementById("answer").textContent;
}

/** Loads the page's URL again, and shows what has changed. `isWhole` replaces all of it. */
export async function refresh({ isWhole = false } = {}) {
  loading?.abort();
  clearTimeout(timer);
  owesWhole ||= isWhole;
  if (isWhole) problems = 0; // a person has asked
  const own = (loading = new AbortController());
  try {
    const { page, response } = await fetchPage(location.href, own.signal);
    if (own.signal.aborted) return;
    if (response.headers.has("X-Needs-Token")) {
      problems += 1;
      return askForToken(true);
    }
    if (response.redirected) { // to the position of a time such as 10m
      history.replaceState(null, "", response.url);
      address = addressOf(new URL(response.url));
    }
    const fresh = response.headers.get("ETag");
    const isProblem = !response.ok;
    if (!isProblem) notice("");
    const wasProblem = Boolean(document.querySelector("[data-problem]"));
    if (response.status >= 500 && !wasProblem && !owesWhole) {
      notice(page.querySelector("[data-problem] p")?.textContent || "The server does not answer.");
      failures += 1;
      return;
    }
    failures = 0;
    problems = isProblem ? problems + 1 : 0;
    if (fresh === tag && !owesWhole) return;
    tag = fresh;
    show(page, owesWhole || isProblem || wasProblem);
    owesWhole = false;
    const answer = answerOf(document);
    if (answer !== null) for (const listener of listeners) listener(answer);
  } catch (error) {
    if (error.name === "AbortError") return;
    failures += 1;
    notice("The server does not answer. What you see is the last answer; the page asks again.");
  } finally {
    if (loading === own) {
      loading = null;
      schedule();
    }
  }
}

/** Changes parameters of the URL (null leaves one out) and loads the page. */
export function go(values, { replace = false } = {}) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  history[replace ? "replaceState" : "pushState"](null, "", url);
  address = addressOf(url);
  return refresh({ isWhole: true });
}

/** Makes another URL that of the page as it is, with a state of the history: Back leads to the one before. */
export function pushUrl(url, state, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](state, "", url);
  address = addressOf(location);
}

function schedule() {
  clearTimeout(timer);
  if (document.body.dataset.live !== "true" || document.hidden) return;
  looks = document.querySelector("[data-awaited]") ? looks + 1 : 0;
  const pause = looks ? Math.min(EVERY, SOON * 2 ** (looks - 1)) : EVERY;
  const slowest = problems ? SLOWEST_PROBLEM : SLOWEST;
  timer = setTimeout(refresh, Math.min(slowest, pause * 2 ** (failures + problems)));
}

/** `listener` gets the URLs before and after a step in the history, and says whether it has shown what differs. */
export function onStep(listener) {
  steps.push(listener);
}

/** Shows a line above the page; "" hides it. */
export function notice(text) {
  const place = document.getElementById("notice");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}

// --- token, colours ---------------------------------------------------------------------------

function askForToken(isRefused) {
  const button = document.getElementById("token-button");
  button.hidden = false;
  const main = document.querySelector("main");
  if (main.querySelector("form.token")) return;
  const form = document.importNode(document.getElementById("token-form").content, true).firstElementChild;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    stored(sessionStorage, TOKEN, form.elements.token.value.trim());
    form.remove();
    refresh({ isWhole: true });
  });
  form.querySelector('[data-action="forget"]').addEventListener("click", () => {
    stored(sessionStorage, TOKEN, null);
    location.reload();
  });
  if (isRefused && stored(sessionStorage, TOKEN)) notice("The token is unknown to this server.");
  main.prepend(form);
  form.elements.token.focus();
}

const THEMES = ["", "light", "dark"];
const SHOWN = { "": ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };

function prepareTheme() {
  const button = document.getElementById("theme-button");
  const root = document.documentElement;
  const label = () => {
    const [sign, name] = SHOWN[root.dataset.theme || ""];
    button.textContent = sign;
    button.setAttribute("aria-label", `Colours: ${name}`);
    button.title = `Colours: ${name}`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % THEMES.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    stored(localStorage, THEME, next || null);
    label();
    dispatchEvent(new Event("themechange"));
  });
  label();
}

function prepare() {
  prepareTheme();
  const button = document.getElementById("token-button");
  button.hidden = !stored(sessionStorage, TOKEN);
  button.addEventListener("click", () => askForToken(false));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
addEventListener("popstate", () => {
  // A link to a place in the page changes only what is behind the #.
  const before = new URL(address, location.href);
  address = addressOf(location);
  if (addressOf(before) === address) return;
  if (owesWhole || !steps.some((each) => each(before, new URL(location.href)))) refresh({ isWhole: true });
});
document.addEventListener("visibilitychange", () => {
  problems = 0; // a person looks again
  if (document.hidden) clearTimeout(timer);
  else if (document.body.dataset.live === "true") refresh();
});
document.addEventListener("click", (event) => {
  // A menu closes at a click elsewhere.
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

prepare();
if (document.querySelector('[data-problem="401"]')) {
  if (stored(sessionStorage, TOKEN)) refresh({ isWhole: true });
  else askForToken(false);
} else {
  schedule();
}
