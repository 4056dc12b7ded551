// A list that is searched: a field, perhaps a box to tick, how many rows are like that, and a table of them.

import { addressed, keepInAddress } from "./address.js";
import { h } from "./dom.js";
import { field, input } from "./form.js";
import { count, many } from "./format.js";
import { table } from "./table.js";

/**
 * `ask(signal, search)` gives all rows; where it `followsSearch` it is asked again for what is typed. `counts(row,
 * isTicked)` says which rows are listed at all, `words(row)` is what a row is searched by, `noun` what one of them
 * is called (`nouns` several). `box` stands beside the box, without it there is none. `columns(list)` are those of the table, of
 * which `none` is told where nothing is listed, and `notFound` where nothing fits; `parts(rows)` are headings with their
 * rows, a table each. Gives {tools, list}.
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
