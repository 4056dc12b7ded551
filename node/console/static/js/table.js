// Tables that are tables to a screen reader too, also where a phone shows each row as a card.

import { h } from "./dom.js";
import { count } from "./format.js";

export const FIRST_ROWS = 200; // more are drawn when asked for: ten thousand rows a second time every five seconds are not

/**
 * columns: {title, cell(row), number?, head?}; `head` names the row. `key(row)` tells rows apart between drawings.
 * `state` (an object of the page) remembers that all rows were asked for; `again` draws once more.
 */
export function table({ caption, columns, rows, key, empty, state = {}, again }) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const shown = state.all ? rows : rows.slice(0, FIRST_ROWS);
  const more = rows.length - shown.length;
  return h(
    "div",
    { class: "rows" },
    h(
      "table",
      { role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(title))),
      h(
        "tbody",
        { role: "rowgroup" },
        shown.map((row) => line(row, columns, key)),
      ),
    ),
    more > 0 &&
      h(
        "p",
        {},
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              state.all = true;
              again?.();
            },
          },
          `Show ${count(more)} more`,
        ),
      ),
  );
}

function title(column) {
  return h(
    "th",
    { scope: "col", role: "columnheader", class: column.number ? "number" : null },
    column.title,
  );
}

function line(row, columns, key) {
  return h(
    "tr",
    { role: "row", "data-key": key ? String(key(row)) : null },
    columns.map((column) =>
      h(
        column.head ? "th" : "td",
        {
          scope: column.head ? "row" : null,
          role: column.head ? "rowheader" : "cell",
          class: column.number ? "number" : null,
          "data-label": column.title,
        },
        h("span", { class: "value" }, column.cell(row)),
      ),
    ),
  );
}
