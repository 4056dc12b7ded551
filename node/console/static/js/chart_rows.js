// Charts from rows, {time, row}: a row has the values of all lines by name, or is null for a gap.

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { note } from "./parts.js";

const LEAST_SPAN_MS = 60_000; // of new charts

/** Return a history as rows, with times of this computer's clock. */
export function rowsOf({ now_ms, times_ms, series }) {
  const ahead = Date.now() - now_ms;
  const names = Object.keys(series);
  const row = (i) => Object.fromEntries(names.map((name) => [name, series[name][i]]));
  return times_ms.map((time, i) => ({ time: time + ahead, row: row(i) }));
}

/** Draw these charts for the last `spanMs`, or for all rows if they span less. */
export function drawCharts(kinds, all, spanMs) {
  const end = all.at(-1).time;
  const span = Math.max(LEAST_SPAN_MS, Math.min(spanMs, end - all[0].time));
  const rows = all.filter(({ time }) => time >= end - span);
  const times = rows.map(({ time }) => time);
  return h(
    "div",
    { class: "charts" },
    kinds.map(({ title, show, base, lines }) =>
      chart({
        title,
        times,
        show,
        base,
        span,
        series: Object.entries(lines).map(([name, line]) => ({
          name,
          values: rows.map(({ row }) => row?.[line] ?? null),
        })),
      }),
    ),
  );
}

export function drawSilent(silent) {
  return (
    silent.length > 0 &&
    note("warn", `The charts leave out ${silent.map((id) => `node ${id}`).join(", ")}, which did not answer.`)
  );
}
