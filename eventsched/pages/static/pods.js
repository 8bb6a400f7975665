// The page Pods: a table that has only the rows in sight and some pages of rows around them, and a part
// of one pod's page beside it. All that is chosen is in the URL.

import { breakable, count, element } from "./elements.js";
import { Rows } from "./pod_list.js";
import { fetchPage, go, notice, onAnswer, onStep, pushUrl } from "./shell.js";

const TALLEST = 15_000_000; // px: browsers cut off what is taller than 17 to 33 million
const COLUMNS = 6; // of a narrow list: a cell over more of them would add columns
const AHEAD = 40; // rows beyond those in sight
const NARROW = "(max-width: 900px)"; // the chosen pod is below the list, as in pages.css
const KEYS = ["group", "open"]; // parameters that the page has from an answer, and nobody types
const SOUGHT = 10; // pages in which the pod of the address is looked for

let list = null;
let shown = "";
let rowHeight = 1; // px, as pages.css has it for the width of the list
let room = 0; // px of the window in which rows are in sight
let stretch = 1; // px of all rows that one px of the window stands for: more if there are very many

function age(seconds) {
  if (seconds === null) return "";
  if (seconds < 10) return `${Number(seconds.toPrecision(3))} s`;
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d ${two(Math.floor((whole % 86400) / 3600))}h`;
}

function rowOf(pod, number) {
  if (!pod) {
    const waiting = element("td", { role: "cell", class: "quiet", colspan: COLUMNS }, "…");
    return element("tr", { role: "row", "aria-rowindex": number + 2 }, waiting);
  }
  const name = `${pod.namespace}/${pod.name}`;
  const url = new URL(location.href);
  url.searchParams.set("show", name);
  const cell = (kind, ...content) =>
    element("td", { role: "cell", class: kind }, element("span", { class: "cell", "data-plugin": pod.plugin || null }, ...content));
  const row = element(
    "tr",
    { role: "row", "aria-rowindex": number + 2, "aria-current": name === shown ? "true" : null },
    element("th", { role: "rowheader", scope: "row" }, element("a", { href: url, "data-show": name, class: "cell" }, name)),
    element("td", { role: "cell", class: "owner" }, ownerLink(pod)),
    cell(null, element("span", { class: `state ${pod.state}` }), pod.state),
    cell("waits", age(pod.wait_seconds)),
    cell("number attempts", pod.attempts),
    cell("plugin", ...breakable(pod.plugin ?? "")),
    cell("why", pod.reason ?? ""),
    element("td", { role: "cell", class: "node" }, cellLink(pod.node, ["nodes", pod.node])),
  );
  for (const each of row.cells) {
    each.title = each.textContent;
    each.classList.toggle("nothing", !each.textContent);
  }
  return row;
}

// The stream and the time of the page, which its links keep.
function keptQuery() {
  const here = new URL(location.href).searchParams;
  return new URLSearchParams(["stream", "at"].filter((each) => here.get(each)).map((each) => [each, here.get(each)]));
}

// A text that leads to the page of a path, or is empty.
function cellLink(text, path) {
  if (!text) return element("span", { class: "cell" });
  const query = keptQuery();
  const href = `/${path.map(encodeURIComponent).join("/")}${query.size ? `?${query}` : ""}`;
  return element("a", { class: "cell", href }, text);
}

// The window names the kinds of owners that have a page.
function ownerLink({ namespace, owner_kind: kind, owner_name: name }) {
  const kinds = document.getElementById("window").dataset.workloads.split(" ");
  if (kinds.includes(kind)) return cellLink(name, ["workloads", namespace, kind, name]);
  return element("span", { class: "cell" }, name ?? "");
}

function spacer(height) {
  const cell = element("td", { colspan: COLUMNS });
  cell.style.height = `${height}px`; // the policy of the page forbids attributes with styles
  return element("tr", { class: "spacer", "aria-hidden": "true" }, cell);
}

// Why there are no rows, with a link that removes the filters: as the server has put it.
function emptyRow() {
  const words = document.importNode(document.getElementById("nothing").content, true);
  return element("tr", { class: "empty" }, element("td", { colspan: COLUMNS }, element("p", {}, words)));
}

// Rows are higher in a narrow list, and a window has its greatest height.
function measure(place) {
  rowHeight = parseFloat(getComputedStyle(place).getPropertyValue("--row-height"));
  const [tall, room] = [list.count * rowHeight, place.clientHeight];
  stretch = tall > TALLEST ? (tall - room) / (TALLEST - room) : 1;
}

// Where the list begins, in px of all rows, for the height that rows have now: the same row is at the top
// as before, or `kept`, if it was in sight, stays where it was as far as it then is in sight.
function begin(place, kept) {
  const before = place.scrollTop * stretch;
  const number = kept ? list.find(kept) : -1;
  const offset = number * rowHeight - before;
  const wasInSight = number >= 0 && offset > -rowHeight && offset < room;
  const top = before / rowHeight; // the row at the top
  measure(place);
  if (!wasInSight) return top * rowHeight;
  return Math.max(0, number * rowHeight - Math.max(0, Math.min(offset, roomOf(place) - rowHeight)));
}

function roomOf(place) {
  return place.clientHeight - place.querySelector("thead").offsetHeight;
}

function draw(kept = "") {
  const place = document.getElementById("window");
  if (!place || !list) return;
  const body = document.querySelector("#pods tbody");
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.show : undefined;
  const at = begin(place, kept);
  const first = Math.max(0, Math.floor(at / rowHeight) - AHEAD);
  const last = Math.min(list.count, Math.ceil((at + place.clientHeight) / rowHeight) + AHEAD);
  const rows = [];
  const missing = new Set();
  for (let number = first; number < last; number += 1) {
    const pod = list.row(number);
    if (!pod) missing.add(list.pageOf(number));
    rows.push(rowOf(pod, number));
  }
  if (!list.isComplete && last >= list.count - AHEAD) missing.add(list.cursors.length - 1);
  if (list.count || !list.isComplete) {
    const before = Math.max(0, at / stretch - (at - first * rowHeight));
    const tall = Math.min(list.count * rowHeight, TALLEST);
    const after = Math.max(0, tall - before - rows.length * rowHeight);
    body.replaceChildren(spacer(before), ...rows, spacer(after));
  } else body.replaceChildren(emptyRow());
  room = roomOf(place);
  if (Math.abs(place.scrollTop - at / stretch) > 1) place.scrollTop = at / stretch; // the same row as before
  if (focused !== undefined) {
    [...body.querySelectorAll("a")].find((each) => each.dataset.show === focused)?.focus({ preventScroll: true });
  }
  const total = list.isComplete ? list.count : list.total;
  document.getElementById("pods").setAttribute("aria-rowcount", total === null ? "-1" : String(total + 1));
  const text = total === null
    ? `${count(list.count)} loaded, more below`
    : `${count(total)} in all`;
  const status = document.getElementById("list-state");
  if (status.textContent !== text) status.textContent = text;
  const own = list;
  for (const page of missing) {
    own.load(page).then(
      () => own === list && draw(),
      (error) => notice(`The pods could not be loaded: ${error.message}`),
    );
  }
}

function callOfUrl() {
  const query = new URL(location.href).searchParams;
  for (const name of ["show", "cursor", "limit", "open", "offset", "by"]) query.delete(name);
  if (query.get("group")) query.delete("ever"); // groups are of pods that exist
  if (query.get("ever") === "true") query.delete("sort"); // the newest attempts first is the only order
  for (const [name, value] of [...query]) {
    if (!KEYS.includes(name)) query.set(name, value.trim());
    if (!value.trim()) query.delete(name);
  }
  if (query.has("name")) query.set("name_contains", query.get("name")); // a part of it
  query.delete("name");
  const text = query.toString();
  return `/pods${text ? `?${text}` : ""}`;
}

// --- one pod beside the list --------------------------------------------------------------------

async function showPod(name) {
  const stays = name || shown; // its row stays in sight: rows are higher in a narrow list
  shown = name;
  const panel = document.getElementById("panel");
  document.getElementById("beside").classList.toggle("open", Boolean(name));
  panel.hidden = !name;
  draw(stays);
  if (!name) return;
  const cut = name.indexOf("/");
  const path = [name.slice(0, cut), name.slice(cut + 1)].map(encodeURIComponent).join("/");
  const url = `/pods/${path}?${keptQuery()}`;
  const close = element("button", { type: "button", class: "close" }, "Close");
  close.addEventListener("click", () => choose(""));
  try {
    const { page } = await fetchPage(url);
    if (shown !== name) return;
    const parts = page.querySelectorAll('[data-part="headline"], [data-part="attempts"], [data-problem]');
    const whole = element("p", {}, element("a", { href: url }, "Timeline and story"));
    panel.replaceChildren(close, ...[...parts].map((part) => document.importNode(part, true)), whole);
    for (const each of panel.querySelectorAll("[id], [aria-labelledby]")) {
      each.removeAttribute("id");
      each.removeAttribute("aria-labelledby");
    }
  } catch {
    panel.replaceChildren(close, element("p", {}, "The server does not answer."));
  }
}

// Back closes a panel that was opened here; another pod in it takes the place of the one before.
function choose(name) {
  if (!name && history.state?.opened) {
    history.back();
    return;
  }
  const url = new URL(location.href);
  if (name) url.searchParams.set("show", name);
  else url.searchParams.delete("show");
  const isOpened = Boolean(name && !shown);
  pushUrl(url, isOpened ? { opened: true } : history.state, { replace: !isOpened });
  beside(name);
}

async function beside(name) {
  const before = shown;
  const isShown = showPod(name);
  if (name) document.getElementById("panel").focus({ preventScroll: true });
  else [...document.querySelectorAll("#pods a")].find((each) => each.dataset.show === before)?.focus();
  await isShown;
  if (name && name === shown && matchMedia(NARROW).matches) document.getElementById("beside").scrollIntoView();
}

onStep((before, after) => {
  const name = after.searchParams.get("show") ?? "";
  for (const url of [before, after]) url.searchParams.delete("show");
  const isHere = document.getElementById("window")?.dataset.ready && before.href === after.href;
  if (isHere) beside(name);
  return Boolean(isHere);
});

function prepare() {
  const place = document.getElementById("window");
  document.querySelector(".paging")?.remove();
  let isPlanned = false;
  place.addEventListener("scroll", () => {
    if (isPlanned) return;
    isPlanned = true;
    requestAnimationFrame(() => {
      isPlanned = false;
      draw();
    });
  });
  document.querySelector("#pods tbody").addEventListener("click", (event) => {
    const link = event.target.closest("a[data-show]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    choose(link.dataset.show);
  });
  document.getElementById("newer").addEventListener("click", reload);
}

function reload() {
  list = new Rows(callOfUrl());
  document.getElementById("newer").hidden = true;
  document.getElementById("window").scrollTop = 0;
  const own = list;
  own.load(0).then(async () => {
    if (own === list) reveal(own);
    if (own.isComplete || own.isOfAttempts) return;
    await own.countAll();
    if (own === list) draw();
  }).catch((error) => {
    notice(`The pods could not be loaded: ${error.message}`);
  });
}

// The pod of the address is in the middle of the list, if it is among the first rows.
async function reveal(own) {
  const name = shown;
  for (let page = 1; name && own.find(name) < 0 && !own.isComplete && page < SOUGHT; page += 1) await own.load(page);
  if (own !== list) return;
  draw();
  const number = name === shown ? own.find(name) : -1;
  if (number < 0) return;
  const place = document.getElementById("window");
  place.scrollTop = Math.max(0, number * rowHeight - (room - rowHeight) / 2) / stretch;
  draw();
}

onAnswer((answer) => {
  const place = document.getElementById("window");
  if (!place) return;
  if (place.dataset.ready) {
    const isPast = new URL(location.href).searchParams.has("at");
    document.getElementById("newer").hidden = isPast || !list.head || answer.head <= list.head;
    return;
  }
  place.dataset.ready = "true";
  prepare();
  reload();
  showPod(new URL(location.href).searchParams.get("show") ?? "");
});

function filter(form) {
  const none = { cursor: null, ever: null, show: null, open: null, offset: null };
  const values = { ...none, ...Object.fromEntries(new FormData(form)) };
  if (values.ever && values.sort) values.sort = null; // pods that are gone have one order
  return go(values);
}

document.addEventListener("submit", (event) => {
  if (event.target.id !== "filters") return;
  event.preventDefault();
  filter(event.target);
});
// What they are grouped by is no filter: it holds at once, and the focus stays on it.
document.addEventListener("change", async ({ target }) => {
  if (target.name !== "by" || target.form?.id !== "filters") return;
  await filter(target.form);
  const chosen = document.querySelector('#filters [name="by"]');
  if (document.activeElement === document.body) chosen?.focus({ preventScroll: true });
});
// On a narrow screen only the name and the filters in use are there at first.
document.addEventListener("click", ({ target }) => {
  if (target.id !== "all-filters") return;
  const isShown = document.getElementById("filters").classList.toggle("shown");
  target.setAttribute("aria-expanded", String(isShown));
});
// A group opens without another page, and the focus stays on it.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-open]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const key = link.dataset.open;
  await go({ open: link.getAttribute("aria-expanded") === "true" ? null : key }, { replace: true });
  [...document.querySelectorAll("a[data-open]")].find((each) => each.dataset.open === key)?.focus();
});
addEventListener("resize", () => draw(shown));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && shown && document.getElementById("panel")) choose("");
});
