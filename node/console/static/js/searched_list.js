// A searchable list: a field, optionally a checkbox, the number of matching rows, and a table of them.

import { addressed, keepInAddress } from "./address.js";
import { h } from "./dom.js";
import { field, input } from "./form.js";
import { count, many } from "./format.js";
import { table } from "./table.js";

/**
 * `ask(signal, search)` returns all rows; if it `followsSearch`, it is called again when the text changes. `counts(row,
 * isTicked)` returns true for rows to list at all, `words(row)` returns the text that is searched, `noun` is the name
 * of a row (`nouns` in the plural). `box` is the label of the checkbox; without it there is none. `columns(list)` are
 * those of the table, `none` is the text for an empty list, `notFound` that for no match; `parts(rows)` are headings
 * with their rows, a table for each. Returns {tools, list}.
 */
export function searchedList(
  view,
  {
    every = 5_000,
    ask,
    followsSearch = false,
    counts = () => true,
    words,
    noun,
    nouns = noun + "s",
    placeholder,
    box,
    none,
    notFound,
    columns,
    parts = (rows) => [[null, rows]],
    ...shape
  },
) {
  const state = {};
  const search = input("search", {
    type: "search",
    placeholder,
    value: addressed().search,
    oninput: () => {
      keepInAddress({ search: search.value });
      list.draw();
      if (followsSearch) list.refresh();
    },
  });
  const ticked = h("input", { type: "checkbox", onchange: () => list.draw() });
  const draw = (all) => {
    const wanted = search.value.toLowerCase();
    const listed = all.filter((row) => counts(row, ticked.checked));
    const rows = listed.filter((row) => words(row).toLowerCase().includes(wanted));
    const whole = many(listed.length, noun, nouns);
    return [
      h(
        "p",
        { class: "hint", role: "status" },
        rows.length === listed.length ? whole : `${count(rows.length)} of ${whole}`,
      ),
      parts(rows).map(([heading, some]) =>
        h(
          "div",
          { class: heading && "part", "data-key": heading },
          heading && h("h3", {}, heading),
          table({
            ...shape,
            ...(heading && { caption: `${shape.caption}: ${heading}` }),
            columns: columns(list),
            rows: some,
            state,
            again: list.draw,
            empty: listed.length ? notFound : none,
          }),
        ),
      ),
    ];
  };
  const list = view.live({ every, ask: (signal) => ask(signal, search.value), draw });
  const tools = h(
    "div",
    { class: "tools" },
    field("Search", search),
    box && h("label", { class: "check" }, ticked, box),
  );
  return { tools, list };
}
