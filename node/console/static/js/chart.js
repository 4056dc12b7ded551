// Lines over time, drawn as SVG: a scale from zero, the current values as text, and a description for screen readers.

import { h, svg } from "./dom.js";
import { clock, digits } from "./format.js";

const WIDTH = 600;
const HEIGHT = 140;
const STEPS = [1, 2, 2.5, 5, 10];

/**
 * series: {name, values}, as long as `times` (ms); null is a gap. `show` formats a value. `span` is the width in ms:
 * the right edge is the last time. Sizes have a `base` of 1024.
 */
export function chart({ title, times, series, show = digits, span, base = 1000 }) {
  const top = ceiling(base, Math.max(0, ...series.flatMap((one) => one.values.map((value) => value ?? 0))));
  const end = times.at(-1) ?? 0;
  const x = (time) => WIDTH - ((end - time) / span) * WIDTH;
  const y = (value) => HEIGHT - (value / top) * HEIGHT;
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, title),
    h(
      "ul",
      { class: "legend" },
      series.map((one, i) =>
        h(
          "li",
          {},
          h("span", { class: `key line-${i}`, "aria-hidden": "true" }),
          h("span", {}, one.name),
          h("strong", {}, show(one.values.at(-1) ?? null)),
        ),
      ),
    ),
    h(
      "div",
      { class: "plot" },
      h(
        "div",
        { class: "scale", "aria-hidden": "true" },
        [top, top / 2, 0].map((value) => h("span", {}, show(value))),
      ),
      svg(
        "svg",
        {
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          preserveAspectRatio: "none",
          role: "img",
          "aria-label": `${title}: ${series.map((one) => `${one.name} ${show(one.values.at(-1) ?? null)}`).join(", ")}`,
        },
        [0, HEIGHT / 2, HEIGHT].map((at) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: at, y2: at })),
        series.map((one, i) =>
          lines(times, one.values, x, y).map((points) =>
            svg("polyline", { class: `line line-${i}`, points }),
          ),
        ),
      ),
    ),
    h(
      "div",
      { class: "times", "aria-hidden": "true" },
      h("span", {}, clock(end - span)),
      h("span", {}, clock(end)),
    ),
  );
}

/** Return the runs of points without a gap, as `points` attributes. */
function lines(times, values, x, y) {
  const runs = [[]];
  values.forEach((value, i) => {
    if (value === null || value === undefined) runs.push([]);
    else runs.at(-1).push(`${x(times[i]).toFixed(1)},${y(value).toFixed(1)}`);
  });
  return runs.filter((run) => run.length > 1).map((run) => run.join(" "));
}

/** Return the next round number in the value's unit; for sizes a round number of KiB or MiB. */
export function ceiling(base, value) {
  if (!(value > 0)) return 1;
  const unit = base ** Math.floor(Math.log(value) / Math.log(base));
  const size = unit * 10 ** Math.floor(Math.log10(value / unit));
  return size * STEPS.find((step) => value <= step * size * 1.0000001);
}
