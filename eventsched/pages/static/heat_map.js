// A heat map of a decision: a row for each node, a column for each plugin, on a canvas. Only the
// rows in view are drawn. The elements are made by the page; see `HeatMap`.

import { count } from "./elements.js";
import { Palette } from "./heat_cells.js";

const ROW = 22;
const TITLE_PIXELS = 13;
const NARROW = 560;
const PAD = 8;
const LEAST_CELL = 26;
const MOST_CELL = 92;
const TOTAL = 64;
const COUNT = 72;

// Draws `rows` (a HeatRows) into `scroller`, an element that scrolls and takes the focus, and says
// in words into `live` which cell the keyboard is at. `picked(row, plugin)` is called for a chosen
// cell; plugin is null for the name of a node and its total.
export class HeatMap {
  constructor(scroller, live, rows, picked) {
    this.scroller = scroller;
    this.live = live;
    this.rows = rows;
    this.picked = picked;
    this.row = 0;
    this.column = -1;
    this.drawn = { first: 0, last: 0, milliseconds: 0, frames: 0 };
    this.canvas = document.createElement("canvas");
    this.canvas.className = "heat-canvas";
    this.canvas.setAttribute("aria-hidden", "true");
    this.space = document.createElement("div");
    this.space.className = "heat-space";
    this.space.append(this.canvas);
    scroller.replaceChildren(this.space);
    this.context = this.canvas.getContext("2d");
    this.pending = 0;
    const later = () => this.later();
    scroller.addEventListener("scroll", later, { passive: true });
    scroller.addEventListener("keydown", (event) => this.#key(event));
    scroller.addEventListener("focus", later);
    scroller.addEventListener("blur", later);
    this.canvas.addEventListener("click", (event) => this.#click(event));
    this.canvas.addEventListener("mousemove", (event) => this.#hover(event));
    new ResizeObserver(() => this.restyle()).observe(scroller);
    addEventListener("themechange", () => this.restyle());
    this.restyle();
  }

  // Reads the theme and the size again, and draws.
  restyle() {
    this.palette = new Palette(this.scroller);
    this.refresh();
  }

  // After the rows have changed.
  refresh() {
    this.row = Math.max(0, Math.min(this.row, this.rows.rows.length - 1));
    this.scroller.dataset.rows = String(this.rows.rows.length);
    this.#measure();
    this.draw();
  }

  // Draws at the next frame, once.
  later() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  // Moves the keyboard's place to a row, and the row into view.
  show(row, column = this.column) {
    this.row = row;
    this.column = column;
    const top = row * ROW, height = this.height - this.head;
    const { scrollTop } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    if (top + ROW > scrollTop + height) this.scroller.scrollTop = top + ROW - height;
    this.live.textContent = this.words(row, column);
    this.later();
  }

  // A cell in words.
  words(row, column) {
    const place = this.rows.rows[row];
    if (place === undefined) return "no rows";
    if (place.node < 0) {
      const state = this.rows.open.has(place.group.key) ? "open" : "closed";
      return `${place.count} nodes, ${place.group.title}, ${state}`;
    }
    const name = this.rows.names[place.node];
    const plugin = this.rows.columns[column];
    if (plugin !== undefined) return `${name}, ${plugin}: ${this.rows.words(place.node, plugin)}`;
    const total = this.rows.verdicts.totals[place.node];
    return total === undefined ? `${name}, ${place.group.title}` : `${name}, total ${total}`;
  }

  #measure() {
    const columns = Math.max(1, this.rows.columns.length);
    this.width = this.scroller.clientWidth;
    this.names = this.width < NARROW ? 132 : 230;
    const room = (this.width - this.names - TOTAL) / columns;
    this.cell = Math.floor(Math.max(LEAST_CELL, Math.min(MOST_CELL, room)));
    this.context.font = `${TITLE_PIXELS}px ${this.palette.font}`;
    const widest = Math.max(0, ...this.rows.columns.map((plugin) => this.context.measureText(this.rows.title(plugin)).width));
    this.isSlanted = widest + PAD > this.cell;
    // Slanted titles rise by the sine of 50 degrees of their length.
    this.head = this.isSlanted ? Math.ceil(Math.min(widest, 190) * 0.77) + 18 : 28;
    const slack = this.isSlanted ? Math.ceil(Math.min(widest, 190) * 0.65) : 0;
    const wanted = this.names + this.cell * this.rows.columns.length + TOTAL;
    this.inner = Math.max(this.width, wanted + Math.max(0, slack - TOTAL));
    this.space.style.width = `${this.inner}px`;
    this.space.style.height = `${this.head + this.rows.rows.length * ROW}px`;
    // The style sheet limits the height of the scroller, and few rows need less.
    this.height = Math.min(this.scroller.clientHeight, this.head + this.rows.rows.length * ROW);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  // Draws the rows in view.
  draw() {
    const begin = performance.now();
    const { context, palette } = this;
    const { scrollTop, scrollLeft } = this.scroller;
    const rows = this.rows.rows;
    const first = Math.max(0, Math.floor(scrollTop / ROW));
    const last = Math.min(rows.length, Math.ceil((scrollTop + this.height - this.head) / ROW));
    context.textBaseline = "middle";
    context.fillStyle = palette.background;
    context.fillRect(0, 0, this.width, this.height);
    for (let row = first; row < last; row += 1) {
      const y = this.head + row * ROW - scrollTop;
      if (rows[row].node < 0) this.#drawGroup(rows[row], y);
      else this.#drawNode(rows[row], y, scrollLeft);
    }
    this.#drawHead(scrollLeft);
    if (document.activeElement === this.scroller) this.#drawFocus(scrollTop, scrollLeft);
    const { frames } = this.drawn;
    this.drawn = { first, last, milliseconds: performance.now() - begin, frames: frames + 1 };
  }

  #drawGroup(row, y) {
    const { context, palette } = this;
    context.fillStyle = palette.band;
    context.fillRect(0, y, this.width, ROW - 1);
    const share = row.group.nodes.length / Math.max(1, this.rows.names.length);
    context.fillStyle = row.group.refusal === null ? palette.ramp[100] : palette.fills.refused;
    context.fillRect(0, y + ROW - 4, this.width * share, 3);
    context.fillStyle = palette.text;
    context.textAlign = "left";
    context.font = `600 ${TITLE_PIXELS}px ${palette.font}`;
    const sign = this.rows.open.has(row.group.key) || this.rows.search ? "▾" : "▸";
    context.fillText(sign, PAD, y + ROW / 2 - 1);
    context.fillText(this.#fitted(row.group.title, this.width - COUNT - 2 * PAD), COUNT + PAD,
      y + ROW / 2 - 1);
    context.textAlign = "right";
    context.fillText(count(row.count), COUNT, y + ROW / 2 - 1);
  }

  #drawNode(row, y, scrollLeft) {
    const { context, palette, rows } = this;
    context.font = `11px ${palette.font}`;
    context.textAlign = "center";
    const text = this.cell >= LEAST_CELL - 2;
    rows.columns.forEach((plugin, column) => {
      const x = this.names + column * this.cell - scrollLeft;
      if (x + this.cell < this.names || x > this.width) return;
      const cell = rows.cell(row.node, plugin);
      palette.draw(context, cell, x, y, this.cell - 1, ROW - 1, text);
    });
    const total = rows.verdicts.totals[row.node];
    context.font = `${TITLE_PIXELS}px ${palette.font}`;
    context.fillStyle = palette.text;
    if (total !== undefined && row.node < rows.feasible) {
      context.textAlign = "right";
      const end = this.names + rows.columns.length * this.cell + TOTAL - PAD - scrollLeft;
      context.fillText(String(total), end, y + ROW / 2);
    }
    context.fillStyle = palette.background;
    context.fillRect(0, y, this.names, ROW);
    context.fillStyle = palette.text;
    context.textAlign = "left";
    const isChosen = rows.names[row.node] === rows.chosen;
    context.font = `${isChosen ? "700 " : ""}${TITLE_PIXELS}px ${palette.font}`;
    const name = (isChosen ? "✓ " : "") + rows.names[row.node];
    context.fillText(this.#fitted(name, this.names - 2 * PAD), PAD, y + ROW / 2);
  }

  #drawHead(scrollLeft) {
    const { context, palette } = this;
    context.fillStyle = palette.background;
    context.fillRect(0, 0, this.width, this.head);
    context.fillStyle = palette.text;
    context.font = `${TITLE_PIXELS}px ${palette.font}`;
    context.save();
    context.beginPath();
    context.rect(this.names, 0, this.width - this.names, this.head);
    context.clip();
    const titles = [...this.rows.columns.map((plugin) => this.rows.title(plugin)), this.rows.feasible > 0 ? "total" : ""];
    titles.forEach((title, column) => {
      const x = this.names + column * this.cell - scrollLeft;
      const isTotal = column === this.rows.columns.length;
      context.save();
      if (isTotal) {
        context.textAlign = "right";
        context.fillText(title, x + TOTAL - PAD, this.head - 12);
      } else if (this.isSlanted) {
        context.textAlign = "left";
        context.translate(x + this.cell / 2, this.head - 8);
        context.rotate((-50 * Math.PI) / 180);
        context.fillText(this.#fitted(title, 190), 0, 0);
      } else {
        context.textAlign = "center";
        context.fillText(title, x + this.cell / 2, this.head - 12);
      }
      context.restore();
    });
    context.restore();
    context.textAlign = "left";
    context.fillText("node", PAD, this.head - 12);
    context.fillStyle = palette.line;
    context.fillRect(0, this.head - 1, this.width, 1);
  }

  #drawFocus(scrollTop, scrollLeft) {
    const { context } = this;
    const y = this.head + this.row * ROW - scrollTop;
    if (y < this.head - 1 || this.rows.rows.length === 0) return;
    const isCell = this.column >= 0 && this.rows.rows[this.row].node >= 0;
    const x = isCell ? this.names + this.column * this.cell - scrollLeft : 1;
    const width = isCell ? this.cell - 1 : this.width - 2;
    context.strokeStyle = this.palette.focus;
    context.lineWidth = 2;
    context.strokeRect(x, y, width, ROW - 1);
  }

  // A text that is no wider than there is room for.
  #fitted(text, room) {
    if (this.context.measureText(text).width <= room) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.context.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
      else high = middle - 1;
    }
    return `${text.slice(0, low)}…`;
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    if (y < this.head) return null;
    const row = Math.floor((y - this.head + this.scroller.scrollTop) / ROW);
    if (row >= this.rows.rows.length) return null;
    const column = Math.floor((x - this.names + this.scroller.scrollLeft) / this.cell);
    return { row, column: x < this.names || column >= this.rows.columns.length ? -1 : column };
  }

  #hover(event) {
    const at = this.#at(event);
    this.canvas.title = at === null ? "" : this.words(at.row, at.column);
  }

  #click(event) {
    const at = this.#at(event);
    if (at === null) return;
    this.show(at.row, at.column);
    this.#choose();
  }

  #choose() {
    const row = this.rows.rows[this.row];
    if (row === undefined) return;
    if (row.node < 0) {
      this.rows.toggle(row.group);
      this.refresh();
      this.show(this.row);
    } else {
      this.picked(row, this.rows.columns[this.column] ?? null);
    }
  }

  #key(event) {
    const page = Math.max(1, Math.floor((this.height - this.head) / ROW) - 1);
    const last = this.rows.rows.length - 1, columns = this.rows.columns.length;
    const moves = {
      ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1],
      PageDown: [page, 0], PageUp: [-page, 0], Home: [-last, 0], End: [last, 0],
    };
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") this.#choose();
    else if (event.key in moves) {
      const [down, right] = moves[event.key];
      const column = Math.max(-1, Math.min(this.column + right, columns - 1));
      this.show(Math.max(0, Math.min(this.row + down, last)), column);
      const x = column * this.cell, room = this.width - this.names - this.cell;
      if (right !== 0 && column >= 0) {
        const { scrollLeft } = this.scroller;
        this.scroller.scrollLeft = Math.max(x - room, Math.min(scrollLeft, x));
      }
    } else return;
    event.preventDefault();
  }
}
