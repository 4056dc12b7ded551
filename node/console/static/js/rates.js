// What goes through this node, remembered for the last minutes while the console is open, and drawn.

import { rates } from "./ask/cluster.js";
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { bytes, digits, duration } from "./format.js";

const SPAN_MS = 5 * 60_000;
const LEAST_SPAN_MS = 60_000; // of a chart that has just begun
const GAP_MS = 15_000; // longer without an answer: a gap in the line
const samples = []; // {time, told}, oldest first; outlives the page, so that who comes back sees what was

export async function watchRates(signal) {
  const told = await rates(signal);
  const now = Date.now();
  if (samples.length && now - samples.at(-1).time > GAP_MS) samples.push({ time: now - 1, told: null });
  samples.push({ time: now, told });
  while (samples[0].time < now - SPAN_MS) samples.shift();
  return samples;
}

const perSecond = (show) => (value) => `${show(value)}/s`;
const meter = (name) => (told) => told[`${name}_per_second`];
const request = (api, what) => (told) => told.requests.find((one) => one.api === api)?.[what] ?? 0;

// Title, how its values are written, whether they are sizes, and its lines.
const CHARTS = [
  ["Bytes of clients", perSecond(bytes), 1024, { in: meter("bytes_in"), out: meter("bytes_out") }],
  ["Records of producers", perSecond(digits), 1000, { in: meter("messages_in") }],
  [
    "Bytes of replicas",
    perSecond(bytes),
    1024,
    { in: meter("replication_bytes_in"), out: meter("replication_bytes_out") },
  ],
  [
    "Requests",
    perSecond(digits),
    1000,
    { Produce: request("Produce", "requests_per_second"), Fetch: request("Fetch", "requests_per_second") },
  ],
  [
    "Produce takes",
    duration,
    1000,
    { "half within": request("Produce", "p50_ms"), "99 % within": request("Produce", "p99_ms") },
  ],
  [
    "Fetch takes, its wait for records too",
    duration,
    1000,
    { "half within": request("Fetch", "p50_ms"), "99 % within": request("Fetch", "p99_ms") },
  ],
];

export function rateCharts(all) {
  const times = all.map((one) => one.time);
  const span = Math.max(LEAST_SPAN_MS, times.at(-1) - times[0]);
  // The first answer compares with nothing.
  const values = (read) => all.map(({ told }) => (told === null || !told.window_seconds ? null : read(told)));
  const lines = (series) => Object.entries(series).map(([name, read]) => ({ name, values: values(read) }));
  return h(
    "div",
    { class: "charts" },
    CHARTS.map(([title, show, base, series]) =>
      chart({ title, times, show, base, span, series: lines(series) }),
    ),
  );
}
