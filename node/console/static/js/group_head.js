// The head of the pages of a group.

import { deleteGroup, isShareGroup } from "./ask/groups.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { groupHref } from "./hrefs.js";
import { button, link, say, tabs } from "./parts.js";

const PAGES = [
  ["", "State and lag"],
  ["reset", "Reset offsets"],
  ["configs", "Configs"],
];
const DEAD_LETTERS = ["dead-letters", "Dead letters"]; // only for share groups

export function groupHead(view, group, page) {
  const erase = async () => {
    const isDone = await ask({
      title: `Delete group ${group}?`,
      effect: "Its committed offsets are deleted. Consumers that join it again start by their auto.offset.reset, members of a share group by its share.auto.offset.reset.",
      action: "Delete the group",
      act: () => deleteGroup(group),
    });
    if (!isDone) return;
    say(`Group ${group} is deleted.`);
    location.hash = "#/groups";
  };
  const place = h("div", { "data-own": "" });
  const draw = (isShare) =>
    place.replaceChildren(
      tabs(
        "Pages of the group",
        [...PAGES, ...(isShare ? [DEAD_LETTERS] : [])].map(([name, word]) => [groupHref(group, name), word]),
        groupHref(group, page),
      ),
    );
  draw(page === DEAD_LETTERS[0]);
  isShareGroup(group, view.signal).then(
    (isShare) => isShare && page !== DEAD_LETTERS[0] && draw(true),
    () => {}, // the page itself shows the error
  );
  return [
    h("p", { class: "trail" }, link("#/groups", "Groups")),
    h("div", { class: "head" }, h("h1", {}, group), button("Delete…", erase, { class: "danger-quiet" })),
    place,
  ];
}
