// The heat map of the Decision screen, with a panel for the chosen node and cell.

import { element, table } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { HeatRows } from "./heat_rows.js";
import { columnsOf } from "./node_names.js";
import { fetchApi, onAnswer } from "./shell.js";

const TABLE_ROWS = 100;
const SEARCH_DELAY = 120;
const NAMED_PODS = 20;
const [AS_TABLE, AS_MAP] = ["Show as a table", "Show as a heat map"];

async function start(root) {
  const begin = performance.now();
  const plain = [...root.childNodes];
  const message = element("p", { role: "status", class: "quiet" }, "Loading the verdicts…");
  root.prepend(message);
  try {
    root.screen = new DecisionScreen(root, await columnsOf(root.dataset.heat));
    root.dataset.drawn = String(Math.round(performance.now() - begin));
  } catch (problem) {
    message.textContent = problem.message;
    root.replaceChildren(message, ...plain);
  }
}

class DecisionScreen {
  constructor(root, verdicts) {
    this.root = root;
    this.verdicts = verdicts;
    this.rows = new HeatRows(verdicts);
    this.rows.chosen = root.dataset.chosen ?? "";
    this.scroller = element("div", {
      class: "heat-scroller", tabindex: 0, role: "application",
      "aria-label": "Heat map of nodes and plugins",
      "aria-describedby": "heat-help",
    });
    this.scroller.heat = this;
    this.live = element("p", { class: "unseen", role: "status" });
    this.panel = element("aside", { class: "heat-panel", "aria-label": "Chosen node" },
      element("p", { class: "quiet" }, "Choose a cell to see its numbers."));
    this.list = element("div", { class: "heat-table", hidden: true });
    this.page = 0;
    this.showsNode = false;
    const help = element("p", { id: "heat-help", class: "quiet" },
      "Arrow keys move, Enter opens a group or chooses a cell.");
    root.replaceChildren(this.#tools(), legend(), this.live,
      element("div", { class: "heat-body" },
        element("div", { class: "heat-view" }, this.scroller, this.list, help), this.panel));
    this.map = new HeatMap(this.scroller, this.live, this.rows,
      (row, plugin) => this.choose(row.node, plugin));
    const asked = new URLSearchParams(location.search).get("node");
    if (asked !== null) this.show(asked);
  }

  #tools() {
    this.search = element("input", { type: "search", id: "heat-search", autocomplete: "off" });
    this.every = element("input", { type: "checkbox", id: "heat-every" });
    this.first = element("input", { type: "checkbox", id: "heat-first" });
    this.asTable = element("button", { type: "button" }, AS_TABLE);
    let timer = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        this.rows.search = this.search.value.trim();
        this.#refresh();
      }, SEARCH_DELAY);
    });
    this.every.addEventListener("change", () => {
      this.rows.everyPlugin = this.every.checked;
      this.#refresh();
    });
    this.first.addEventListener("change", () => {
      this.rows.feasibleFirst = this.first.checked;
      this.#refresh();
      this.scroller.scrollTop = 0;
    });
    this.asTable.addEventListener("click", () => {
      const isTable = this.list.hidden;
      this.list.hidden = !isTable;
      this.scroller.hidden = isTable;
      this.first.parentElement.hidden = isTable || !this.rows.feasible; // a table always has them first
      this.asTable.textContent = isTable ? AS_MAP : AS_TABLE;
      this.#refresh();
    });
    return element("div", { class: "heat-tools" },
      element("label", { for: "heat-search" }, "Find a node ", this.search),
      element("label", { for: "heat-every" }, this.every, " every plugin"),
      element("label", { for: "heat-first", hidden: !this.rows.feasible }, this.first, " feasible nodes first"),
      this.asTable);
  }

  #refresh() {
    this.rows.refresh();
    this.page = 0;
    if (this.list.hidden) this.map.refresh();
    else this.#fillTable();
  }

  #fillTable() {
    const nodes = this.rows.inOrder(true).flatMap((group) => group.nodes)
      .filter((node) => this.rows.names[node].toLowerCase()
        .includes(this.rows.search.toLowerCase()));
    const first = this.page * TABLE_ROWS, last = Math.min(nodes.length, first + TABLE_ROWS);
    const columns = this.rows.columns;
    const lines = nodes.slice(first, last).map((node) => [
      this.rows.names[node] === this.rows.chosen ? `${this.rows.names[node]} (chosen)` : this.rows.names[node], ...columns.map((plugin) => this.rows.words(node, plugin)),
      node < this.rows.feasible ? this.verdicts.totals[node] : "",
    ]);
    const caption = nodes.length === 0 ? "No node has that name"
      : `Nodes ${first + 1} to ${last} of ${nodes.length}`;
    const turn = (text, page, isThere) => {
      const button = element("button", { type: "button", disabled: !isThere }, text);
      button.addEventListener("click", () => {
        this.page = page;
        this.#fillTable();
      });
      return button;
    };
    this.list.replaceChildren(
      element("div", { class: "table-scroller", tabindex: 0, role: "region",
        "aria-label": "Verdicts as a table" },
        table(caption, ["node", ...columns.map((plugin) => this.rows.title(plugin)), "total"], lines, [columns.length + 1])),
      ...(nodes.length <= TABLE_ROWS ? [] : [
        turn("Previous", this.page - 1, this.page > 0),
        turn("Next", this.page + 1, last < nodes.length),
      ]));
  }

  // Shows the node of a name, with `asks` also why the pod is not there. False if it was not there.
  show(name, asks = false) {
    const row = this.rows.reveal(name);
    this.map.refresh();
    if (row >= 0) {
      this.map.show(row, -1);
      this.choose(this.rows.rows[row].node, null);
      if (asks) this.panel.querySelector(".why-not button")?.click();
      return true;
    }
    if (this.verdicts.vectors !== "all") return false; // the log has only some
    this.#missing(name, asks);
    return true;
  }

  // Says that a node was not there, and which the API offers instead.
  async #missing(name, asks) {
    const place = element("p", { role: "status" }, `${name} was not there at this decision.`);
    this.panel.replaceChildren(place);
    const call = this.root.dataset.whyNot ?? this.root.dataset.state;
    const { remedy } = await fetchApi(`${call}&node=${encodeURIComponent(name)}`).catch((problem) => problem);
    if (remedy) place.append(" ", ...this.#offered(remedy[0].toUpperCase() + remedy.slice(1), asks));
  }

  // A text in which each name of a node that was there is a button.
  #offered(text, asks) {
    const names = new Set(this.rows.names);
    return text.split(/([\w.-]*\w)/).map((part) => {
      if (!names.has(part)) return part;
      const button = element("button", { type: "button" }, part);
      button.addEventListener("click", () => this.show(part, asks));
      return button;
    });
  }

  // Shows a node in the panel, with a plugin's cell in words, and puts the node into the address.
  choose(node, plugin) {
    const name = this.rows.names[node];
    const address = new URL(location.href);
    address.searchParams.set("node", name);
    history.replaceState(null, "", address);
    const isFeasible = node < this.rows.feasible;
    const parts = [element("h3", {}, element("a", { href: this.#pageOf(name) }, name))];
    if (plugin !== null && this.rows.cell(node, plugin).refusal === undefined) {
      parts.push(element("p", { class: "heat-cell" },
        element("strong", {}, plugin), ": ", this.rows.words(node, plugin)));
    }
    if (isFeasible) parts.push(...this.#feasible(node));
    else parts.push(this.#refused(node));
    parts.push(this.#nodeThen(name));
    if (name !== this.rows.chosen && this.root.dataset.whyNot) {
      parts.push(this.#whyNot(name));
    }
    this.panel.replaceChildren(...parts);
  }

  // The page of a node as of the decision.
  #pageOf(name) {
    return `/nodes/${encodeURIComponent(name)}?${this.root.dataset.state.split("?")[1]}`;
  }

  #feasible(node) {
    const { totals, ranks, scores } = this.verdicts;
    const lines = scores.map(({ plugin }) => {
      const score = this.rows.score(node, plugin);
      return [plugin, score.raw, score.normalized, `× ${score.weight}`, score.weighted];
    });
    lines.push(["total", "", "", "", totals[node]]);
    const same = ranks.filter((rank) => rank === ranks[node]).length;
    const equal = same > 1 ? `, like ${same - 1} other${same > 2 ? "s" : ""}` : "";
    const parts = [
      element("p", {}, `Feasible, rank ${ranks[node]} of ${this.rows.feasible}${equal}.`),
      table("Scores", ["plugin", "raw", "normalised", "weight", "weighted"], lines, [1, 2, 3, 4]),
      element("p", { class: "quiet" }, "Raw is what the plugin gave, normalised the same from 0 to 100, weighted that times the plugin's weight. The weighted scores add up to the total."),
    ];
    const { draw, ties } = this.root.dataset;
    if (ranks[node] === 1 && Number(ties) > 1) {
      const place = BigInt(draw) % BigInt(ties);
      parts.push(element("p", {}, `${ties} nodes had the best total. The draw ${draw} chose number ` +
        `${place} of them, counting from 0: ${this.rows.chosen}.`));
    }
    return parts;
  }

  #refused(node) {
    const { refusal } = this.rows.groupOf(node);
    const text = refusal.plugin === null ? refusal.reason : `${refusal.plugin}: ${refusal.reason}`;
    return element("p", {}, `${text} (${refusal.code}).`);
  }

  // What the node was like then. The state of that position is folded for it, so only if asked;
  // it stays open for the next node.
  #nodeThen(name) {
    const place = element("div", { "aria-live": "polite" });
    const details = element("details", { class: "node-then", open: this.showsNode },
      element("summary", {}, "Free resources, labels and taints then"), place);
    const load = async () => {
      this.showsNode = details.open;
      if (!details.open || place.childElementCount > 0) return;
      place.replaceChildren(element("p", { class: "quiet" }, "Asking for the state then…"));
      try {
        const call = `${this.root.dataset.state}&node=${encodeURIComponent(name)}`;
        place.replaceChildren(...nodeFacts((await fetchApi(call)).node));
      } catch (problem) {
        place.replaceChildren(element("p", { class: "problem" }, problem.message));
      }
    };
    details.addEventListener("toggle", load);
    return details;
  }

  #whyNot(name) {
    const button = element("button", { type: "button" }, `Why not ${name}?`);
    const place = element("div", { class: "why-not remedies", "aria-live": "polite" }, button);
    button.addEventListener("click", async () => {
      place.replaceChildren(element("p", {}, "Deciding it again…"));
      try {
        const call = `${this.root.dataset.whyNot}&node=${encodeURIComponent(name)}`;
        place.replaceChildren(...remedies(await fetchApi(call), this.root.dataset.whatIf));
      } catch (problem) {
        place.replaceChildren(element("p", { class: "problem" }, problem.message));
      }
    });
    return place;
  }
}

// What a node had free, its labels and taints, and the pods on it.
function nodeFacts(node) {
  const resources = Object.keys(node.allocatable);
  const lines = resources.map((name) => {
    const [offered, asked] = [node.allocatable[name], node.requested[name] ?? 0];
    return [name, amount(name, offered - asked), amount(name, asked), amount(name, offered)];
  });
  const list = (title, texts) => [element("h4", {}, title), texts.length
    ? element("ul", {}, ...texts.map((text) => element("li", {}, text)))
    : element("p", { class: "quiet" }, "none")];
  const labels = Object.entries(node.labels).map(([key, value]) => `${key}=${value}`);
  return [
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Resources then" },
      table("Resources", ["resource", "free", "requested", "allocatable"], lines, [1, 2, 3])),
    ...(node.unschedulable ? [element("p", {}, "It was cordoned.")] : []),
    ...list("Taints", node.taints), ...list("Labels", labels.sort()),
    ...list(`Pods (${node.pods.length})`, node.pods.slice(0, NAMED_PODS)),
  ];
}

// An amount of the API: millicores, bytes or a count.
function amount(resource, value) {
  if (resource === "cpu") return value % 1000 ? `${value}m` : String(value / 1000);
  const isBytes = resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
  if (!isBytes) return String(value);
  const size = Math.abs(value) >= 2 ** 30 ? [2 ** 30, "GiB"] : [2 ** 20, "MiB"];
  return `${Number((value / size[0]).toFixed(1))} ${size[1]}`;
}

// How many points a node is short of the best one, and which plugins took them.
function shortfall(node, { points, best, scores }) {
  const short = points ? `${points} ${points === 1 ? "point" : "points"} short of ${best} in the total` : `as good as ${best}, and the draw decides`;
  const signed = (number) => (number < 0 ? `−${-number}` : `+${number}`);
  const parts = scores.map((each) => `${each.plugin} ${signed(each.difference)}`).join(", ");
  return element("p", { class: "lead" }, `${node} is ${short}${parts ? `: ${parts} (scores times weights)` : ""}.`);
}

// What would have to change for a pod to land on a node. `whatIf` is the address of that page, if there is one.
function remedies(found, whatIf) {
  const parts = [element("h4", {}, "Why not this node?")];
  if (found.stuck !== null) {
    const { failedPlugins, reasons } = found.stuck;
    const refusal = [failedPlugins.join(", "), reasons.join("; ")].filter(Boolean).join(": ");
    parts.push(element("p", {}, `No change is known with which it lands there: ${refusal}.`));
  } else if (found.landing.lands) {
    parts.push(element("p", {}, found.givenUp ? `${found.node}: ${found.givenUp}.` : "It lands there as it is."));
  }
  const { failedPlugins, reasons, lands } = found.landing;
  if (found.stuck === null && !lands && !found.shortfall) {
    parts.push(element("p", { class: "lead" },
      `${found.node} is refused by ${failedPlugins.join(", ") || "the search"}: ${reasons.join("; ")}.`));
  }
  if (found.shortfall) parts.push(shortfall(found.node, found.shortfall));
  parts.push(...alternatives(found.remedies.filter((changes) => changes.length > 0), whatIf));
  const times = found.decisions === 1 ? "once" : `${found.decisions} times`;
  const asked = found.extendersAsked ? "" : " Extenders were not asked.";
  parts.push(element("p", { class: "quiet" }, `Decided again ${times} to prove it.${asked}`));
  return parts;
}

// The remedies, of which one is enough; of the changes of a remedy each is needed.
function alternatives(remedies, whatIf) {
  const items = (changes) => changes.map((change) => element("li", {}, change.text, ...whatElse(change, whatIf)));
  if (!remedies.length) return [];
  if (remedies.length === 1) {
    const needed = remedies[0].length > 1 ? " do all of these" : "";
    return [element("p", {}, `It lands there if you${needed}:`), element("ul", {}, ...items(remedies[0]))];
  }
  const each = remedies.map((changes) => changes.length === 1 ? items(changes)[0]
    : element("li", {}, "all of these:", element("ul", {}, ...items(changes))));
  return [element("p", {}, "It lands there if you do one of these:"), element("ul", {}, ...each)];
}

// The way to What-if with the weight that a remedy changes: it would move other pods, too.
function whatElse({ kind, plugin, weight }, whatIf) {
  if (kind !== "WeightChanged" || !whatIf) return [];
  const address = new URL(whatIf, location.href);
  address.searchParams.set("plugin", plugin);
  address.searchParams.set("weight", weight);
  address.hash = "other-rules";
  return [" (", element("a", { href: address.href }, "what else would it move?"), ")"];
}

function legend() {
  const marks = [
    ["heat-key-score", "score 0 to 100; the number is score × weight, and they add up to the total"], ["heat-key-passed", "passed"],
    ["heat-key-refused", "refused"], ["heat-key-unresolvable", "refused, evictions do not help"],
    ["heat-key-skipped", "not evaluated"],
  ];
  return element("ul", { class: "heat-legend", "aria-label": "Legend" },
    ...marks.map(([kind, text]) => element("li", {},
      element("span", { class: `heat-key ${kind}`, "aria-hidden": "true" }), text)));
}

// A node that is named is shown here. One that the log does not have is looked for on the pod's page.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.why-not")) return;
  const screen = document.querySelector("[data-heat]")?.screen;
  if (!screen?.show(event.target.elements["why-not"].value.trim(), true)) return;
  event.preventDefault();
  screen.panel.scrollIntoView({ block: "nearest" });
});

// Loads the verdicts once for each section that comes into the page.
const started = new WeakSet();
onAnswer(() => {
  const section = document.querySelector("[data-heat]");
  if (section === null || started.has(section)) return;
  started.add(section);
  start(section);
});
