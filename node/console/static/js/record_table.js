// Records as rows; each can be opened.

import { h } from "./dom.js";
import { count, many, time } from "./format.js";
import { recordHref } from "./hrefs.js";
import { preview } from "./record_bytes.js";
import { table } from "./table.js";

/** `state` and `again` are those of `table`; `open(record)` shows a record in full. */
export function recordTable(topic, records, state, again, open) {
  return table({
    caption: `Records of ${topic}`,
    rows: records,
    key: keyOf,
    empty: "No records found.",
    state,
    again,
    open,
    columns: [
      { title: "Offset", head: true, number: true, cell: (one) => opener(topic, one, open) },
      { title: "Partition", cell: (one) => String(one.partition) },
      { title: "Time", cell: (one) => h("time", {}, time(one.timestamp)) },
      { title: "Key", cell: (one) => short(one.key) },
      {
        title: "Value",
        cell: (one) => [
          short(one.value),
          one.headers.length > 0 && h("span", { class: "hint" }, ` +${many(one.headers.length, "header")}`),
        ],
      },
    ],
  });
}

/** Return a key for a record, unique within its topic. */
export const keyOf = ({ partition, offset }) => `${partition}:${offset}`;

/** Return a key or a value as one line. */
export function short(content) {
  if (content === null) return h("em", {}, "null");
  if (content.length === 0) return h("em", {}, "empty");
  return h("code", { class: "preview" }, preview(content));
}

/** A link to the record: it opens in this page, or, with a modifier key, in a new tab like any link. */
function opener(topic, one, open) {
  const onclick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(one);
  };
  return h("a", { href: recordHref(topic, one), "aria-label": `Show ${placeOf(one)}`, onclick }, count(one.offset));
}

export function placeOf({ offset, partition }) {
  return `offset ${offset} of partition ${partition}`;
}
