// Tables that screen readers see as tables, even where a phone shows each row as a card.

import { h } from "./dom.js";
import { count } from "./format.js";

export const FIRST_ROWS = 200; // more are drawn on request: redrawing ten thousand rows every five seconds is too slow

/**
 * columns: {title, cell(row), number?, head?}; `head` names the row. `key(row)` identifies a row across drawings.
 * `state` (an object of the page) remembers that all rows were requested; `again` redraws. With `open(row)`, a click
 * anywhere in a row opens it, and arrow keys go from row to row; one cell has a link or a button that does the same.
 */
export function table({ caption, columns, rows, key, empty, state = {}, again, open }) {
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
        shown.map((row) => line(row, columns, key, open)),
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

function line(row, columns, key, open) {
  return h(
    "tr",
    {
      role: "row",
      "data-key": key ? String(key(row)) : null,
      class: open ? "opens" : null,
      onclick: open && ((event) => isForRow(event) && open(row)),
      onkeydown: open && step,
    },
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

/** Return true if a click is meant for the row: not for a link or button in it, and not the end of a selection. */
function isForRow(event) {
  return !event.target.closest("a, button, input, label") && getSelection().isCollapsed;
}

function step(event) {
  const row = event.currentTarget;
  const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (!next) return;
  event.preventDefault();
  next.querySelector("a, button")?.focus();
}
