// The traffic of the cluster or of one node: the last hour from the samples of the nodes, then the rates measured while
// the console is open.

import { rates } from "./ask/cluster.js";
import { brokerHistory, clusterHistory } from "./ask/history.js";
import { FLOW_CHARTS } from "./chart_kinds.js";
import { drawCharts, drawSilent, rowsOf } from "./chart_rows.js";
import { h } from "./dom.js";
import { choice, field } from "./form.js";
import { repeat } from "./repeat.js";

const LIVE_MS = 5 * 60_000; // of measurements every two seconds; before that, the nodes' samples do
const GAP_MS = 15_000; // for a longer gap, the nodes' samples are better
const PAST_EVERY_MS = 30_000;
const SPANS = [
  [5, "5 minutes"],
  [15, "15 minutes"],
  [60, "1 hour"],
];
const samples = []; // {time, reply}, oldest first; kept when the page is left

/** Ask for the rates, and keep the answer. */
export async function watchRates(signal) {
  const reply = await rates(signal);
  const now = Date.now();
  if (samples.length && now - samples.at(-1).time > GAP_MS) samples.length = 0;
  samples.push({ time: now, reply: { cluster: flat(reply.cluster), nodes: reply.nodes.map(flat) } });
  while (samples[0].time < now - LIVE_MS) samples.shift();
  return reply;
}

/** Return rates by the names of a history, without those of other requests. */
function flat({ requests, ...flow }) {
  for (const api of ["Produce", "Fetch"]) {
    const reply = requests.find((one) => one.api === api);
    const name = api.toLowerCase();
    flow[`${name}_requests_per_second`] = reply?.requests_per_second ?? 0;
    // There was no request, so there is no latency: a gap, not zero.
    flow[`${name}_p50_ms`] = reply?.p50_ms ?? null;
    flow[`${name}_p99_ms`] = reply?.p99_ms ?? null;
  }
  return flow;
}

/** Return a node's rates per second; null if the latest are old, or its first, which have no interval. */
export function flowNow(nodeId) {
  const last = samples.at(-1);
  return last && Date.now() - last.time < GAP_MS ? chosen(last.reply, nodeId) : null;
}

/** Live charts of the whole cluster or of the chosen node: {choose, charts}. */
export function liveCharts(view) {
  let past = [];
  const of = choice("of", [["", "the whole cluster"]], "");
  const span = choice("span", SPANS, 60, { onchange: () => charts.draw() });
  const chosenId = () => (of.value === "" ? null : Number(of.value));
  const askHistory = async () => {
    const id = chosenId();
    try {
      const reply = await (id === null ? clusterHistory(view.signal) : brokerHistory(id, view.signal));
      if (id === chosenId()) past = rowsOf(reply);
    } catch {
      // The charts start with the rates from now on.
    }
    charts.draw();
  };
  const charts = view.live({
    every: 2_000,
    ask: watchRates,
    draw: (reply) => {
      offer(of, reply);
      const live = samples.map(({ time, reply }) => ({ time, row: chosen(reply, chosenId()) }));
      const rows = [...past.filter(({ time }) => time < live[0].time), ...live];
      return [drawSilent(reply.silent), drawCharts(FLOW_CHARTS, rows, span.value * 60_000)];
    },
  });
  const refresh = repeat(PAST_EVERY_MS, askHistory, view.signal);
  of.onchange = () => {
    past = [];
    charts.draw();
    refresh();
  };
  return { choose: h("div", { class: "tools" }, inline("Charts of", of), inline("Last", span)), charts };
}

function inline(label, control) {
  const made = field(label, control);
  made.classList.add("inline");
  return made;
}

/** Offer the nodes in addition to the cluster; the chosen one stays, even if it is down. */
function offer(of, { nodes, silent }) {
  const known = new Set([...of.options].map((one) => one.value));
  for (const id of [...nodes.map((one) => one.node_id), ...silent]) {
    if (!known.has(String(id))) of.append(h("option", { value: id }, `node ${id}`));
  }
}

function chosen(reply, nodeId) {
  const found = nodeId === null ? reply.cluster : reply.nodes.find((one) => one.node_id === nodeId);
  // The first answer of a node has no interval.
  return found?.window_seconds ? found : null;
}
