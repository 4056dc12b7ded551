// What goes through the cluster or one of its nodes: the last hour as the nodes remember it, then what comes while
// the console is open.

import { rates } from "./ask/cluster.js";
import { brokerHistory, clusterHistory } from "./ask/history.js";
import { FLOW_CHARTS } from "./chart_kinds.js";
import { drawCharts, rowsOf, tellSilent } from "./chart_rows.js";
import { h } from "./dom.js";
import { choice, field } from "./form.js";
import { repeat } from "./repeat.js";

const LIVE_MS = 5 * 60_000; // of what comes every two seconds; before it a point of the nodes' every ten is enough
const GAP_MS = 15_000; // longer without an answer: the nodes remember better what was
const PAST_EVERY_MS = 30_000;
const SPANS = [
  [5, "5 minutes"],
  [15, "15 minutes"],
  [60, "1 hour"],
];
const samples = []; // {time, told}, oldest first; outlives the page, so that who comes back sees what was

/** Asks, and remembers the answer. */
export async function watchRates(signal) {
  const told = await rates(signal);
  const now = Date.now();
  if (samples.length && now - samples.at(-1).time > GAP_MS) samples.length = 0;
  samples.push({ time: now, told: { cluster: flat(told.cluster), nodes: told.nodes.map(flat) } });
  while (samples[0].time < now - LIVE_MS) samples.shift();
  return told;
}

/** Rates under the names that a history has; the other requests are not remembered. */
function flat({ requests, ...flow }) {
  for (const api of ["Produce", "Fetch"]) {
    const told = requests.find((one) => one.api === api);
    const name = api.toLowerCase();
    flow[`${name}_requests_per_second`] = told?.requests_per_second ?? 0;
    // Nothing was asked lately, so nothing took any time: a gap, not zero.
    flow[`${name}_p50_ms`] = told?.p50_ms ?? null;
    flow[`${name}_p99_ms`] = told?.p99_ms ?? null;
  }
  return flow;
}

/** What a node did a second when it was heard of last; null if that is not now, or compares with nothing. */
export function flowNow(nodeId) {
  const last = samples.at(-1);
  return last && Date.now() - last.time < GAP_MS ? chosen(last.told, nodeId) : null;
}

/** Charts that go on, of the whole cluster or of the node that is chosen; {choose, charts}. */
export function liveCharts(view) {
  let past = [];
  const of = choice("of", [["", "the whole cluster"]], "");
  const span = choice("span", SPANS, 60, { onchange: () => charts.draw() });
  const chosenId = () => (of.value === "" ? null : Number(of.value));
  const askPast = async () => {
    const id = chosenId();
    try {
      const told = await (id === null ? clusterHistory(view.signal) : brokerHistory(id, view.signal));
      if (id === chosenId()) past = rowsOf(told);
    } catch {
      // The charts begin with what is told from now on.
    }
    charts.draw();
  };
  const charts = view.live({
    every: 2_000,
    ask: watchRates,
    draw: (told) => {
      offer(of, told);
      const live = samples.map(({ time, told }) => ({ time, row: chosen(told, chosenId()) }));
      const rows = [...past.filter(({ time }) => time < live[0].time), ...live];
      return [tellSilent(told.silent), drawCharts(FLOW_CHARTS, rows, span.value * 60_000)];
    },
  });
  const refresh = repeat(PAST_EVERY_MS, askPast, view.signal);
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

/** The nodes as choices, beside the whole; the one that is chosen stays, also while it is down. */
function offer(of, { nodes, silent }) {
  const known = new Set([...of.options].map((one) => one.value));
  for (const id of [...nodes.map((one) => one.node_id), ...silent]) {
    if (!known.has(String(id))) of.append(h("option", { value: id }, `node ${id}`));
  }
}

function chosen(told, nodeId) {
  const found = nodeId === null ? told.cluster : told.nodes.find((one) => one.node_id === nodeId);
  // The first answer of a node compares with nothing.
  return found?.window_seconds ? found : null;
}
