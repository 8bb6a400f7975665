// The rows and cells of a heat map, made from the columns of verdicts that the API gives. Pure: it
// knows no page and no canvas.

export const CELL = Object.freeze({
  SCORED: "scored",
  PASSED: "passed",
  REFUSED: "refused",
  UNRESOLVABLE: "unresolvable",
  FAILED: "failed",
  UNKNOWN: "unknown",
  SKIPPED: "skipped",
});

const REFUSED_AS = {
  Unschedulable: CELL.REFUSED,
  UnschedulableAndUnresolvable: CELL.UNRESOLVABLE,
  Error: CELL.FAILED,
};

export class HeatRows {
  // `verdicts` is the answer of /decisions/{position}/columns.
  constructor(verdicts) {
    this.verdicts = verdicts;
    this.names = verdicts.names;
    this.feasible = verdicts.feasible;
    this.filters = verdicts.filters ?? [];
    this.knowsOrder = verdicts.filters !== null;
    this.scores = new Map(verdicts.scores.map((score) => [score.plugin, score]));
    this.order = new Map(this.filters.map((plugin, place) => [plugin, place]));
    this.groups = grouped(verdicts);
    this.open = new Set();
    const largest = this.groups[0];
    if (largest !== undefined) this.open.add(this.feasible ? "feasible" : largest.key);
    this.columns = [];
    this.rows = [];
    this.search = "";
    this.everyPlugin = false;
    this.feasibleFirst = false;
    this.refresh();
  }

  // Works out columns and rows again after a group was opened, or the search was changed.
  refresh() {
    this.columns = this.#columns();
    const rows = [];
    const word = this.search.toLowerCase();
    for (const group of this.inOrder(this.feasibleFirst)) {
      const nodes = word === "" ? group.nodes : group.nodes.filter((node) => this.#has(node, word));
      if (word !== "" && nodes.length === 0) continue;
      rows.push({ group, node: -1, count: nodes.length });
      if (this.open.has(group.key) || word !== "") {
        for (const node of nodes) rows.push({ group, node, count: 0 });
      }
    }
    this.rows = rows;
  }

  // The groups, those of refused nodes first or the feasible one.
  inOrder(feasibleFirst) {
    if (!feasibleFirst) return this.groups;
    const isRefused = (group) => Number(group.refusal !== null);
    return [...this.groups].sort((one, other) => isRefused(one) - isRefused(other));
  }

  // Opens a closed group and closes an open one.
  toggle(group) {
    if (!this.open.delete(group.key)) this.open.add(group.key);
    this.refresh();
  }

  // The row that shows a node, opening its group; -1 if there is no such node.
  reveal(name) {
    const node = this.names.indexOf(name);
    if (node < 0) return -1;
    this.open.add(this.groupOf(node).key);
    this.search = "";
    this.refresh();
    return this.rows.findIndex((row) => row.node === node);
  }

  groupOf(node) {
    if (node < this.feasible) return this.groups.find((group) => group.refusal === null);
    const number = this.verdicts.verdicts[node - this.feasible];
    return this.groups.find((group) => group.number === number);
  }

  // The head of a plugin's column: with its weight, if it scored.
  title(plugin) {
    const score = this.scores.get(plugin);
    return score === undefined ? plugin : `${plugin} ×${score.weight}`;
  }

  // What a plugin did with a node: {kind, value, weighted, refusal}. `value` is the normalised
  // score; those that are weighted add up to the total.
  cell(node, plugin) {
    if (node < this.feasible) {
      const score = this.scores.get(plugin);
      if (score === undefined) return { kind: CELL.PASSED };
      const value = score.normalized[node];
      return { kind: CELL.SCORED, value, weighted: value * score.weight };
    }
    const refusal = this.verdicts.refusals[this.verdicts.verdicts[node - this.feasible]];
    if (refusal.plugin === plugin) {
      return { kind: REFUSED_AS[refusal.code] ?? CELL.REFUSED, refusal };
    }
    const place = this.order.get(plugin);
    if (place === undefined) return { kind: this.#unasked(plugin) };
    const end = refusal.plugin === null ? -1 : this.order.get(refusal.plugin);
    if (end === undefined) return { kind: CELL.UNKNOWN };
    return { kind: place < end ? CELL.PASSED : CELL.SKIPPED };
  }

  // All numbers of a score, for a panel; null unless the plugin scored the node.
  score(node, plugin) {
    const score = this.scores.get(plugin);
    if (node >= this.feasible || score === undefined) return null;
    const normalized = score.normalized[node];
    return {
      raw: score.raw[node], normalized, weight: score.weight,
      weighted: normalized * score.weight,
    };
  }

  // A cell in words, for screen readers and for the table.
  words(node, plugin) {
    const cell = this.cell(node, plugin);
    switch (cell.kind) {
      case CELL.SCORED: return `${cell.weighted} (${cell.value} × ${this.scores.get(plugin).weight})`;
      case CELL.PASSED: return "passed";
      case CELL.SKIPPED: return "not evaluated";
      case CELL.UNKNOWN: return "not known";
      default: return `${cell.refusal.code}: ${cell.refusal.reason}`;
    }
  }

  #has(node, word) {
    return this.names[node].toLowerCase().includes(word);
  }

  // A score plugin is never asked about a node that a filter refused. Without the order of the
  // filters, nobody knows which ones came before.
  #unasked(plugin) {
    return this.scores.has(plugin) || this.knowsOrder ? CELL.SKIPPED : CELL.UNKNOWN;
  }

  #columns() {
    const refusing = this.verdicts.refusals.map((refusal) => refusal.plugin).filter(Boolean);
    const involved = new Set([...refusing, ...this.scores.keys()]);
    const known = [...new Set([...this.filters, ...refusing, ...this.scores.keys()])];
    return this.everyPlugin ? known : known.filter((plugin) => involved.has(plugin));
  }
}

// Refused nodes by verdict, the most first, then the feasible ones by total.
function grouped(verdicts) {
  const groups = verdicts.refusals.map((refusal, number) => ({
    key: `refusal-${number}`, number, refusal, nodes: [],
    title: refusal.plugin === null ? refusal.reason : `${refusal.plugin}: ${refusal.reason}`,
  }));
  verdicts.verdicts.forEach((number, place) => {
    groups[number].nodes.push(verdicts.feasible + place);
  });
  groups.sort((one, other) => other.nodes.length - one.nodes.length || one.number - other.number);
  if (verdicts.feasible > 0) {
    const nodes = Array.from({ length: verdicts.feasible }, (_, node) => node);
    groups.push({
      key: "feasible", number: -1, refusal: null, nodes, title: "feasible, by total",
    });
  }
  return groups.filter((group) => group.nodes.length > 0);
}
