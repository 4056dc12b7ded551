// All groups with their lag.

import { SHARE, groups } from "../ask/groups.js";
import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { groupHref } from "../hrefs.js";
import { link } from "../parts.js";
import { searchedList } from "../searched_list.js";
import { groupState } from "../states.js";
import { FIRST_ROWS } from "../table.js";

export function groupsPage(view) {
  const { tools, list } = searchedList(view, {
    ask: (signal, search) => groups(search, FIRST_ROWS, signal),
    followsSearch: true,
    words: (one) => one.group_id,
    noun: "group",
    placeholder: "part of an id",
    counts: (one, onlyShare) => !onlyShare || one.type === SHARE,
    box: "only share groups",
    caption: "Groups",
    key: (one) => one.group_id,
    none: "There are no groups yet. A group appears when a consumer joins it or commits offsets.",
    notFound: "No group id contains this text.",
    columns: () => [
      { title: "Group", head: true, cell: (one) => link(groupHref(one.group_id), one.group_id) },
      { title: "State", cell: (one) => groupState(one.state) },
      { title: "Type", cell: (one) => one.type || one.protocol_type },
      { title: "Members", number: true, cell: (one) => count(one.members) },
      { title: "Lag", number: true, cell: (one) => count(one.lag) },
      { title: "Lag in time", number: true, cell: (one) => duration(one.lag_ms) },
    ],
  });
  view.show("Groups", h("h1", {}, "Groups"), tools, list);
}
