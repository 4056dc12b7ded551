// Charts of the samples that the nodes keep of one thing.

import { drawCharts, drawSilent, rowsOf } from "./chart_rows.js";
import { h } from "./dom.js";

const EVERY_MS = 10_000; // the interval of the samples
const SPAN_MS = 3_600_000;

/** `ask(signal)` returns a history in the form of ask/history.js. */
export function historyCharts(view, ask, kinds) {
  return view.live({ every: EVERY_MS, ask, draw: (reply) => [drawSilent(reply.silent), draw(rowsOf(reply), kinds)] });
}

function draw(rows, kinds) {
  if (rows.length < 2) return h("p", { class: "empty" }, "The charts begin when the nodes have taken two samples, within half a minute.");
  return drawCharts(kinds, rows, SPAN_MS);
}
