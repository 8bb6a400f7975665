// How the cells of a heat map look: colours from the page's style sheet, marks and hatching.

import { CELL } from "./heat_rows.js";

const MARKS = {
  [CELL.PASSED]: "·", [CELL.REFUSED]: "×", [CELL.UNRESOLVABLE]: "×", [CELL.FAILED]: "!",
  [CELL.UNKNOWN]: "?",
};
const STEPS = 101;
const HATCH = 6;

// The colours of the page's theme: custom properties --heat-* of an element, as #rrggbb.
export class Palette {
  constructor(element) {
    const style = getComputedStyle(element);
    const colour = (name) => style.getPropertyValue(`--heat-${name}`).trim();
    this.background = colour("background");
    this.text = colour("text");
    this.faint = colour("faint");
    this.line = colour("line");
    this.band = colour("band");
    this.focus = colour("focus");
    this.font = style.fontFamily;
    this.fills = {
      [CELL.PASSED]: colour("passed"), [CELL.REFUSED]: colour("refused"),
      [CELL.UNRESOLVABLE]: colour("unresolvable"), [CELL.FAILED]: colour("failed"),
      [CELL.UNKNOWN]: this.background,
    };
    const low = channels(colour("low")), high = channels(colour("high"));
    this.ramp = [];
    this.inks = [];
    for (let step = 0; step < STEPS; step += 1) {
      const mixed = low.map((from, i) => Math.round(from + ((high[i] - from) * step) / 100));
      this.ramp.push(`rgb(${mixed.join(",")})`);
      this.inks.push(inkOn(mixed));
    }
    this.onFill = {};
    for (const kind of [CELL.REFUSED, CELL.UNRESOLVABLE, CELL.FAILED]) {
      this.onFill[kind] = inkOn(channels(this.fills[kind]));
    }
  }

  // Draws one cell. `text` says whether there is room for the value.
  draw(context, cell, x, y, width, height, text) {
    if (cell.kind === CELL.SKIPPED) {
      hatch(context, x, y, width, height, this.line);
      return;
    }
    const value = Math.max(0, Math.min(100, cell.value ?? 0));
    const isScore = cell.kind === CELL.SCORED;
    context.fillStyle = isScore ? this.ramp[value] : this.fills[cell.kind];
    context.fillRect(x, y, width, height);
    const mark = isScore ? (text ? String(cell.weighted) : "") : MARKS[cell.kind];
    if (mark === "") return;
    context.fillStyle = isScore ? this.inks[value] : this.onFill[cell.kind] ?? this.faint;
    context.fillText(mark, x + width / 2, y + height / 2);
  }
}

function hatch(context, x, y, width, height, colour) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.beginPath();
  // Lines start at multiples of HATCH of the whole map, so that neighbours join.
  const begin = Math.floor((x - height - y) / HATCH) * HATCH + y;
  for (let at = begin; at < x + width; at += HATCH) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
  context.restore();
}

function channels(hex) {
  const digits = /^#([0-9a-f]{6})$/i.exec(hex)?.[1] ?? "808080";
  return [0, 2, 4].map((place) => parseInt(digits.slice(place, place + 2), 16));
}

// Black or white, whichever contrasts more (WCAG's relative luminance).
function inkOn(rgb) {
  const [red, green, blue] = rgb.map((channel) => {
    const part = channel / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}
