// Bars for each broker, before and after, side by side: drawn as SVG, with the values as text.

import { h, svg } from "./dom.js";

const WIDTH = 100;

/** rows: {name, before, after}; `show` formats a value; null is unknown. */
export function bars({ title, rows, show }) {
  const top = Math.max(0, ...rows.flatMap(({ before, after }) => [before ?? 0, after ?? 0])) || 1;
  return h(
    "figure",
    { class: "chart bars" },
    h("figcaption", {}, title),
    h(
      "ul",
      { class: "legend", "aria-hidden": "true" },
      ["before", "after"].map((word) => h("li", {}, h("span", { class: `key ${word}` }), word)),
    ),
    h(
      "ul",
      { class: "rows-of-bars" },
      rows.map(({ name, before, after }) =>
        h(
          "li",
          {},
          h("span", { class: "name" }, name),
          svg(
            "svg",
            { viewBox: `0 0 ${WIDTH} 20`, preserveAspectRatio: "none", "aria-hidden": "true" },
            bar("before", before, top, 1),
            bar("after", after, top, 11),
          ),
          h("span", { class: "figures" }, [...new Set([before, after].map(show))].join(" → ")),
        ),
      ),
    ),
  );
}

function bar(kind, value, top, y) {
  return svg("rect", { class: kind, x: 0, y, height: 8, width: ((value ?? 0) / top) * WIDTH });
}
