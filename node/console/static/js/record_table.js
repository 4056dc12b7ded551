// Records as rows; each can be opened to see its headers and all its bytes.

import { open } from "./dialog.js";
import { h } from "./dom.js";
import { bytes, count, many, time } from "./format.js";
import { morph } from "./morph.js";
import { button, note } from "./parts.js";
import { preview, read, ways } from "./record_bytes.js";
import { table } from "./table.js";

const WAYS = { json: "JSON", text: "Text", hex: "Hex" };

/** `state` and `again` as of `table`. */
export function recordTable(topic, records, state, again) {
  return table({
    caption: `Records of ${topic}`,
    rows: records,
    key: (one) => `${one.partition}:${one.offset}`,
    empty: "No records found.",
    state,
    again,
    columns: [
      { title: "Offset", head: true, number: true, cell: (one) => count(one.offset) },
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
      { title: "Full record", cell: (one) => details(one) },
    ],
  });
}

/** A key or a value in a line. */
export function short(content) {
  if (content === null) return h("em", {}, "null");
  if (content.length === 0) return h("em", {}, "empty");
  return h("code", { class: "preview" }, preview(content));
}

function details(one) {
  const name = placeOf(one);
  return button("Show", () => openRecord(`Record at ${name}`, one), { "aria-label": `Show ${name}` });
}

export function placeOf({ offset, partition }) {
  return `offset ${offset} of partition ${partition}`;
}

const sizesOf = ({ key, value }) => [
  ["Key", key === null ? "null" : bytes(key.length)],
  ["Value", value === null ? "null" : bytes(value.length)],
];

/** Show a record whole, under what else is known of it: pairs of a name and a value. A `problem` says why it is gone. */
export function openRecord(title, one, known = [], problem = null) {
  const close = open(
    title,
    null,
    h(
      "dl",
      { class: "facts" },
      [
        ...known,
        ["Time", time(one.timestamp)],
        ...(problem === null ? sizesOf(one) : []),
      ].map(([word, value]) => h("div", {}, h("dt", {}, word), h("dd", {}, value))),
    ),
    problem && note("warn", problem),
    one.headers.length > 0 && [h("h3", {}, "Headers"), headerTable(one.headers)],
    content("Key", one.key),
    content("Value", one.value),
    h(
      "div",
      { class: "actions" },
      button("Close", () => close(), { autofocus: true }),
    ),
  );
}

function headerTable(headers) {
  return table({
    caption: "Headers",
    rows: headers,
    empty: "",
    columns: [
      { title: "Name", head: true, cell: (one) => one.name },
      { title: "Value", cell: (one) => short(one.value) },
    ],
  });
}

/** The whole of it, in the way that suits it best, with buttons for the others. */
function content(title, all) {
  if (all === null) return null;
  const place = h("div", {});
  const possible = ways(all);
  const show = (way) =>
    morph(place, [
      h(
        "div",
        { class: "head" },
        h("h3", {}, title),
        h(
          "div",
          { class: "choices", role: "group", "aria-label": `${title} as` },
          possible.map((one) => button(WAYS[one], () => show(one), { "aria-pressed": String(one === way) })),
        ),
      ),
      all.length === 0
        ? h("p", { class: "hint" }, "It is empty.")
        : h(
            "pre",
            { class: "bytes", tabindex: "0", "aria-label": `${title} as ${WAYS[way]}` },
            read(all, way),
          ),
    ]);
  show(possible[0]);
  return place;
}
