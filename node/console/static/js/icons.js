// The marks beside words: drawn in the colour of the text, and hidden from screen readers, since the word says it.

import { svg } from "./dom.js";

// Lines in a field of 20 by 20.
const PATHS = {
  overview: "M3 11a7 7 0 0 1 14 0M10 11l3-4M3 15h14",
  topics: "M4 5h12M4 10h8M4 15h10",
  groups: "M7 9a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM2.5 16c0-3 2-4.5 4.5-4.5s4.5 1.5 4.5 4.5M13 9a2 2 0 1 0-1-3.7M14 11.5c2 .3 3.5 1.8 3.5 4.5",
  transactions: "M4 7h11l-3-3M16 13H5l3 3",
  brokers: "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01",
  reassignments: "M3 5h5v5H3zM12 10h5v5h-5zM11 6h3.5v2M9 14H5.5v-2",
  quorum: "M10 3l7 4-7 4-7-4zM3 11l7 4 7-4",
  doctor: "M3 10h3l2-5 4 10 2-5h3",
  access: "M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 6 0V9",
};

export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] }),
  );
}
