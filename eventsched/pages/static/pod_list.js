// The rows of a list of pods that the API answers page by page.

import { fetchApi } from "./shell.js";

const LIMIT = 200; // rows of a page
const KEPT = 20; // pages in memory

/** The rows of a question, page by page: where each page begins is kept, its rows only of some. */
export class Rows {
  constructor(call) {
    this.call = call;
    this.cursors = [null]; // that of each page
    this.starts = [0]; // number of the first row of each page, and of the row after the last one
    this.pages = new Map(); // in the order of their last use
    this.loading = new Map();
    this.isComplete = false;
    this.total = null; // rows of all pages, once it is known
    this.head = 0;
  }

  get count() {
    return this.starts.at(-1);
  }

  pageOf(row) {
    let [low, high] = [0, this.starts.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= row) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Whether it has pods that are gone: they are found by attempt, and not counted. */
  get isOfAttempts() {
    return new URL(this.call, location.href).searchParams.get("ever") === "true";
  }

  get mark() {
    return this.call.includes("?") ? "&" : "?";
  }

  /** Asks for the number of all rows, beside the first page: to count them can take longer. */
  async countAll() {
    this.total = (await fetchApi(`${this.call}${this.mark}limit=1&count=true`)).total;
  }

  row(number) {
    const page = this.pageOf(number);
    const rows = this.pages.get(page);
    if (!rows) return null;
    this.pages.delete(page);
    this.pages.set(page, rows);
    return rows[number - this.starts[page]] ?? null;
  }

  /** The number of the row of a pod, of those in memory; -1 if it is not there. */
  find(name) {
    for (const [page, pods] of this.pages) {
      const index = pods.findIndex((pod) => `${pod.namespace}/${pod.name}` === name);
      if (index >= 0) return this.starts[page] + index;
    }
    return -1;
  }

  load(page) {
    if (this.pages.has(page) || page >= this.cursors.length) return Promise.resolve();
    if (!this.loading.has(page)) {
      this.loading.set(page, this.fetched(page).finally(() => this.loading.delete(page)));
    }
    return this.loading.get(page);
  }

  async fetched(page) {
    const cursor = this.cursors[page];
    const more = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await fetchApi(`${this.call}${this.mark}limit=${LIMIT}${more}`);
    this.head ||= answer.head;
    this.pages.set(page, answer.pods);
    if (page === this.cursors.length - 1 && this.starts.length === page + 1) {
      this.starts.push(this.starts[page] + answer.pods.length);
      if (answer.next === null) this.isComplete = true;
      else this.cursors.push(answer.next);
    }
    while (this.pages.size > KEPT) this.pages.delete(this.pages.keys().next().value);
  }
}
