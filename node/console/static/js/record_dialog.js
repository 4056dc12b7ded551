// A record in full: its time, its size, its headers, and all of its bytes in a suitable form.

import { copy } from "./copy.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { bytes, count, time, utc } from "./format.js";
import { jsonTree } from "./json_tree.js";
import { morph } from "./morph.js";
import { button, facts, note } from "./parts.js";
import { asText, jsonTokens, read, toBase64, ways } from "./record_bytes.js";
import { short } from "./record_table.js";
import { table } from "./table.js";

const WAYS = { json: "JSON", text: "Text", hex: "Hex" };
const sizeOf = (content) => (content === null ? "null" : bytes(content.length));

/**
 * Show a record; returns a function that closes it. `known` are more facts, pairs of a name and a value; a `problem`
 * says why its content is gone; `actions` are buttons beside Close.
 */
export function openRecord(title, one, { known = [], problem = null, actions = [], onclose } = {}) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const close = open(
    title,
    onclose,
    facts([
      ...known,
      ["Time", h("time", { title: zone }, time(one.timestamp))],
      ["Time in UTC", h("time", {}, utc(one.timestamp))],
      ...(problem === null
        ? [
            ["Key", sizeOf(one.key)],
            ["Value", sizeOf(one.value)],
            ["Headers", one.headers.length === 0 ? "none" : headerSize(one.headers)],
          ]
        : []),
    ]),
    problem && note("warn", problem),
    one.headers.length > 0 && [h("h3", {}, "Headers"), headerTable(one.headers)],
    content("Key", one.key),
    content("Value", one.value),
    h(
      "div",
      { class: "actions" },
      actions,
      button("Close", () => close(), { autofocus: true }),
    ),
  );
  return close;
}

function headerSize(headers) {
  const utf8 = new TextEncoder();
  const size = headers.reduce((sum, { name, value }) => sum + utf8.encode(name).length + (value?.length ?? 0), 0);
  return `${count(headers.length)}, ${bytes(size)}`;
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

/** Draw the whole content in the form that suits it best, with buttons for the others. */
function content(title, all) {
  if (all === null) return null;
  const place = h("div", {});
  const possible = ways(all);
  const text = asText(all);
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
          button("Copy", () => copy(text ?? toBase64(all), text === null ? `The ${title.toLowerCase()}, in base64,` : `The ${title.toLowerCase()}`), {
            "aria-label": `Copy the ${title.toLowerCase()}`,
          }),
        ),
      ),
      all.length === 0
        ? h("p", { class: "hint" }, "It is empty.")
        : h(
            "pre",
            { class: "bytes", "data-key": way, tabindex: "0", "aria-label": `${title} as ${WAYS[way]}` },
            way === "json" ? jsonTree(jsonTokens(all, text)) : read(all, way),
          ),
    ]);
  show(possible[0]);
  return place;
}
