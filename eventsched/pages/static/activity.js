// The charts of the page Now: decisions a second and waiting times of the last hour, drawn by uPlot from the
// table that is their text.

import { onAnswer } from "./shell.js";

const HEIGHT = 150; // px
const MINUTES = 600; // s: a chart of less shows seconds
const DAY = 86400;
// Between the lines of a chart of lengths of time, in seconds.
const LENGTHS = [
  ...[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1].flatMap((each) => [each, 2 * each, 5 * each]),
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  ...[1, 2, 5, 10, 20, 50, 100].map((each) => each * DAY),
];

let charts = [];

function clock(seconds, withSeconds) {
  const text = new Date(seconds * 1000).toISOString().slice(11, withSeconds ? 19 : 16);
  const days = Math.floor(seconds / DAY);
  return seconds < 1e9 && days ? `${days}d ${text}` : text; // a simulation begins in 1970
}

function length(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0";
  if (seconds < 0.001) return `${Number((seconds * 1e6).toPrecision(2))} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 7200) return `${Number((seconds / 60).toPrecision(3))} min`;
  if (seconds >= 2 * DAY) return `${Number((seconds / DAY).toPrecision(3))} d`;
  return `${Number((seconds / 3600).toPrecision(3))} h`;
}

// The ends of the axis of times: of a single time, the second before it. A simulation begins at 0.
function between(low, high) {
  return low < high ? [low, high] : [Math.max(0, low - 1), Math.max(1, high)];
}

function rate(value) {
  return value === null || value === undefined ? "–" : String(Number(value.toPrecision(3)));
}

// The columns of the table, the oldest row first: times, rates, p50, p99.
function columns() {
  const rows = [...document.querySelectorAll('[data-part="activity"] tbody tr')].reverse();
  const number = (text) => (text === "" ? null : Number(text));
  const values = rows.map((row) => [...row.querySelectorAll("[data-value]")].map((cell) => number(cell.dataset.value)));
  const times = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
  return [times, ...[0, 1, 2].map((place) => values.map((cells) => cells[place]))];
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function chart(place, title, series, data, shown, more = {}) {
  const short = data[0].at(-1) - data[0][0] < MINUTES;
  const grid = { stroke: colour("line-soft"), width: 1 };
  const axis = { stroke: colour("quiet"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
  const incrs = LENGTHS.filter((each) => each >= 1 && each <= DAY);
  const times = { ...axis, incrs, grid: { show: false }, values: (_, all) => all.map((each) => clock(each, short)), space: 70 };
  const options = {
    title, width: place.clientWidth, height: HEIGHT,
    padding: [8, 28, 0, 0],
    legend: { markers: { width: 0, fill: (_, index) => (index ? colour(series[index - 1][1]) : "transparent") } },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "activity" } },
    scales: { x: { time: true, range: (_, low, high) => between(low, high) }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [times, { ...axis, ...more, size: 64, values: (_, all) => all.map(shown) }],
    series: [
      { label: "until", value: (_, at) => (at === null ? "–" : clock(at, true)) },
      ...series.map(([label, stroke, fill]) => ({
        label, stroke: colour(stroke), fill: fill && colour(fill), width: 1.5, spanGaps: true,
        points: { size: 4, show: (_, index) => data[index].filter((each) => each !== null).length < 2 },
        value: (_, each) => shown(each),
      })),
    ],
  };
  return new uPlot(options, data, place);
}

function draw() {
  for (const each of charts) each.destroy();
  charts = [];
  const places = ["rate-chart", "wait-chart"].map((id) => document.getElementById(id));
  if (places.includes(null) || typeof uPlot === "undefined") return;
  const [times, rates, p50, p99] = columns();
  if (!times.length) return;
  charts = [
    chart(places[0], "Decisions a second", [["decisions/s", "accent", "accent-soft"]], [times, rates], rate),
    chart(places[1], "Wait for a node", [["p99", "backoff"], ["p50", "accent"]], [times, p99, p50], length, { incrs: LENGTHS }),
  ];
}

let drawn = "";
onAnswer(() => {
  const text = document.querySelector('[data-part="activity"]')?.innerHTML ?? "";
  const isThere = charts.length && document.contains(charts[0].root);
  if (isThere && text === drawn) return;
  drawn = text;
  draw();
});
addEventListener("resize", () => {
  for (const each of charts) each.setSize({ width: each.root.parentElement.clientWidth, height: HEIGHT });
});
addEventListener("themechange", draw);
