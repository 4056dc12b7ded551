// All topics: search, create.

import { createTopic, topics } from "../ask/topics.js";
import { h } from "../dom.js";
import { count } from "../format.js";
import { topicHref } from "../hrefs.js";
import { badge, button, link } from "../parts.js";
import { searchedList } from "../searched_list.js";
import { openTopicForm } from "../topic_form.js";

export function topicsPage(view) {
  const { tools, list } = searchedList(view, {
    ask: topics,
    counts: (one, withInternal) => withInternal || !one.isInternal,
    words: (one) => one.name,
    noun: "topic",
    placeholder: "part of a name",
    box: "show internal topics",
    caption: "Topics",
    key: (one) => one.name,
    none: "There are no topics yet.",
    notFound: "No topic name contains this text.",
    columns: () => [
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
  });
  view.show(
    "Topics",
    h(
      "div",
      { class: "head" },
      h("h1", {}, "Topics"),
      button("Create a topic…", () => openTopicForm(createTopic, list.refresh), { class: "main" }),
    ),
    tools,
    list,
  );
}
