// What the pages of a group begin with.

import { deleteGroup } from "./ask/groups.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { groupHref } from "./hrefs.js";
import { button, link, say, tabs } from "./parts.js";

export function groupHead(group, page) {
  const erase = async () => {
    const isDone = await ask({
      title: `Delete group ${group}?`,
      what: "Its committed offsets are deleted. Consumers that join it again start where their auto.offset.reset says.",
      action: "Delete the group",
      act: () => deleteGroup(group),
    });
    if (!isDone) return;
    say(`Group ${group} is deleted.`);
    location.hash = "#/groups";
  };
  return [
    h("p", { class: "trail" }, link("#/groups", "Groups")),
    h("div", { class: "head" }, h("h1", {}, group), button("Delete…", erase, { class: "danger-quiet" })),
    tabs(
      "Pages of the group",
      [
        [groupHref(group), "State and lag"],
        [groupHref(group, "reset"), "Reset offsets"],
      ],
      groupHref(group, page),
    ),
  ];
}
