// All topics: search, create.

import { createTopic, topics } from "../ask/topics.js";
import { openTopicForm } from "../topic_form.js";
import { h } from "../dom.js";
import { field, input } from "../form.js";
import { count, many } from "../format.js";
import { topicHref } from "../hrefs.js";
import { badge, button, link } from "../parts.js";
import { table } from "../table.js";

export function topicsPage(view) {
  const state = { search: "", internal: false };
  const list = view.live({ every: 5_000, ask: topics, draw: (all) => drawTopics(all, state, list) });
  const search = input("search", {
    type: "search",
    placeholder: "part of a name",
    oninput: () => {
      state.search = search.value;
      list.draw();
    },
  });
  const internal = h("input", {
    type: "checkbox",
    onchange: () => {
      state.internal = internal.checked;
      list.draw();
    },
  });
  view.show(
    "Topics",
    h(
      "div",
      { class: "head" },
      h("h1", {}, "Topics"),
      button("Create a topic…", () => openTopicForm(createTopic, list.refresh), { class: "main" }),
    ),
    h(
      "div",
      { class: "tools" },
      field("Search", search),
      h("label", { class: "check" }, internal, "internal topics too"),
    ),
    list,
  );
}

function drawTopics(all, state, list) {
  const wanted = state.search.toLowerCase();
  const listed = all.filter((one) => state.internal || !one.isInternal);
  const shown = listed.filter((one) => one.name.toLowerCase().includes(wanted));
  return [
    h(
      "p",
      { class: "hint", role: "status" },
      shown.length === listed.length
        ? many(listed.length, "topic")
        : `${count(shown.length)} of ${many(listed.length, "topic")}`,
    ),
    table({
      caption: "Topics",
      rows: shown,
      key: (one) => one.name,
      state,
      again: list.draw,
      empty: listed.length ? "No topic has that in its name." : "There are no topics yet.",
      columns: [
        {
          title: "Name",
          head: true,
          cell: (one) => [
            link(topicHref(one.name), one.name),
            one.isInternal && [" ", badge("plain", "internal")],
          ],
        },
        { title: "Partitions", number: true, cell: (one) => count(one.partitions) },
        { title: "Replicas", number: true, cell: (one) => count(one.replicas) },
      ],
    }),
  ];
}
