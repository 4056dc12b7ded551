// What goes through the cluster or one of its nodes, remembered for the last minutes while the console is open,
// and drawn.

import { rates } from "./ask/cluster.js";
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { choice, field } from "./form.js";
import { bytes, digits, duration } from "./format.js";
import { note } from "./parts.js";

const SPAN_MS = 5 * 60_000;
const LEAST_SPAN_MS = 60_000; // of a chart that has just begun
const GAP_MS = 15_000; // longer without an answer: a gap in the line
const samples = []; // {time, told}, oldest first; outlives the page, so that who comes back sees what was

/** Asks, and remembers the answer. */
export async function watchRates(signal) {
  const told = await rates(signal);
  const now = Date.now();
  if (samples.length && now - samples.at(-1).time > GAP_MS) samples.push({ time: now - 1, told: null });
  samples.push({ time: now, told: { cluster: charted(told.cluster), nodes: told.nodes.map(charted) } });
  while (samples[0].time < now - SPAN_MS) samples.shift();
  return told;
}

/** What is drawn of it; the rest is not remembered. */
function charted(flow) {
  return { ...flow, requests: flow.requests.filter(({ api }) => api === "Produce" || api === "Fetch") };
}

/** What a node did a second when it was heard of last; null if that is not now, or compares with nothing. */
export function flowNow(nodeId) {
  const last = samples.at(-1);
  return last && Date.now() - last.time < GAP_MS ? chosen(last.told, nodeId) : null;
}

export const perSecond = (show) => (value) => `${show(value)}/s`;
const meter = (name) => (told) => told[`${name}_per_second`];
const request = (api, what) => (told) => told.requests.find((one) => one.api === api)?.[what] ?? 0;
// Nothing was asked lately, so nothing took any time: a gap, not zero.
const latency = (api, what) => (told) => told.requests.find((one) => one.api === api)?.[what] ?? null;

// Title, how its values are written, whether they are sizes, and its lines.
const CHARTS = [
  ["Client traffic", perSecond(bytes), 1024, { in: meter("bytes_in"), out: meter("bytes_out") }],
  ["Records produced", perSecond(digits), 1000, { in: meter("messages_in") }],
  [
    "Replication traffic",
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
    "Produce latency",
    duration,
    1000,
    { p50: latency("Produce", "p50_ms"), p99: latency("Produce", "p99_ms") },
  ],
  [
    "Fetch latency, including the wait for records",
    duration,
    1000,
    { p50: latency("Fetch", "p50_ms"), p99: latency("Fetch", "p99_ms") },
  ],
];

/** Charts that go on, of the whole cluster or of the node that is chosen; {choose, charts}. */
export function liveCharts(view) {
  const of = choice("of", [["", "the whole cluster"]], "", { onchange: () => charts.draw() });
  const charts = view.live({
    every: 2_000,
    ask: watchRates,
    draw: (told) => {
      offer(of, told);
      const nodeId = of.value === "" ? null : Number(of.value);
      return [tellSilent(told), draw(samples, (one) => chosen(one, nodeId))];
    },
  });
  const choose = field("Charts of", of);
  choose.classList.add("inline");
  return { choose, charts };
}

/** The nodes as choices, beside the whole; the one that is chosen stays, also while it is down. */
function offer(of, { nodes, silent }) {
  const known = new Set([...of.options].map((one) => one.value));
  for (const id of [...nodes.map((one) => one.node_id), ...silent]) {
    if (!known.has(String(id))) of.append(h("option", { value: id }, `node ${id}`));
  }
}

function chosen(told, nodeId) {
  if (told === null) return null;
  const found = nodeId === null ? told.cluster : told.nodes.find((one) => one.node_id === nodeId);
  // The first answer of a node compares with nothing.
  return found?.window_seconds ? found : null;
}

function tellSilent({ silent }) {
  return (
    silent.length > 0 &&
    note("warn", `The charts leave out ${silent.map((id) => `node ${id}`).join(", ")}, which did not answer.`)
  );
}

function draw(all, pick) {
  const times = all.map((one) => one.time);
  const span = Math.max(LEAST_SPAN_MS, times.at(-1) - times[0]);
  const picked = all.map(({ told }) => pick(told));
  const values = (read) => picked.map((told) => (told === null ? null : read(told)));
  const lines = (series) => Object.entries(series).map(([name, read]) => ({ name, values: values(read) }));
  return h(
    "div",
    { class: "charts" },
    CHARTS.map(([title, show, base, series]) =>
      chart({ title, times, show, base, span, series: lines(series) }),
    ),
  );
}
