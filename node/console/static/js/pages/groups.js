// All groups.

import { groups } from "../ask/groups.js";
import { h } from "../dom.js";
import { field, input } from "../form.js";
import { count, many } from "../format.js";
import { groupHref } from "../hrefs.js";
import { groupState } from "../states.js";
import { link } from "../parts.js";
import { table } from "../table.js";

export function groupsPage(view) {
  const state = { search: "" };
  const list = view.live({ every: 5_000, ask: groups, draw: (all) => draw(all, state, list) });
  const search = input("search", {
    type: "search",
    placeholder: "part of an id",
    oninput: () => {
      state.search = search.value;
      list.draw();
    },
  });
  view.show("Groups", h("h1", {}, "Groups"), h("div", { class: "tools" }, field("Search", search)), list);
}

function draw(all, state, list) {
  const shown = all.filter((one) => one.id.toLowerCase().includes(state.search.toLowerCase()));
  return [
    h(
      "p",
      { class: "hint", role: "status" },
      shown.length === all.length
        ? many(all.length, "group")
        : `${count(shown.length)} of ${many(all.length, "group")}`,
    ),
    table({
      caption: "Groups",
      rows: shown,
      key: (one) => one.id,
      state,
      again: list.draw,
      empty: all.length ? "No group has that in its id." : "No consumer has joined a group yet.",
      columns: [
        { title: "Group", head: true, cell: (one) => link(groupHref(one.id), one.id) },
        { title: "State", cell: (one) => groupState(one.state) },
        { title: "Assignor", cell: (one) => one.assignor || "–" },
      ],
    }),
  ];
}
