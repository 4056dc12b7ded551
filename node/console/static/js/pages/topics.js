// All topics: search, details, readers; create one.

import { createTopic, topicGroups, topics } from "../ask/topics.js";
import { h } from "../dom.js";
import { UNKNOWN, bytes, count } from "../format.js";
import { topicHref } from "../hrefs.js";
import { badge, button, link } from "../parts.js";
import { repeat } from "../repeat.js";
import { searchedList } from "../searched_list.js";
import { FIRST_ROWS } from "../table.js";
import { openTopicForm } from "../topic_form.js";
import { groupWords, retention, writeRates } from "../topic_words.js";

const GROUPS_EVERY_MS = 10_000; // asks each group for its committed offsets

export function topicsPage(view) {
  const rates = writeRates();
  let groups = null; // by topic
  const { tools, list } = searchedList(view, {
    ask: async (signal, search) => {
      const all = await topics(search, FIRST_ROWS, signal);
      rates.take(all);
      return all;
    },
    followsSearch: true,
    counts: (one, withInternal) => withInternal || !one.is_internal,
    words: (one) => one.topic,
    noun: "topic",
    placeholder: "part of a name",
    box: "show internal topics",
    caption: "Topics",
    key: (one) => one.topic,
    none: "There are no topics yet.",
    notFound: "No topic name contains this text.",
    columns: () => [
      { title: "Name", head: true, cell: nameOf },
      { title: "Partitions", number: true, cell: (one) => count(one.partitions) },
      { title: "Replicas", number: true, cell: (one) => count(one.replicas) },
      { title: "Records", number: true, cell: (one) => count(one.records) },
      { title: "Written", number: true, cell: (one) => rates.of(one.topic) ?? UNKNOWN },
      { title: "Size", number: true, cell: (one) => bytes(one.size_bytes) },
      { title: "Retention", cell: (one) => retention(one.configs) ?? UNKNOWN },
      {
        title: "Read by",
        cell: (one) => (groups === null ? UNKNOWN : groupWords(one.topic, groups.get(one.topic) ?? [])),
      },
    ],
  });
  // A request of its own, so that the topics do not wait for the offsets of all groups.
  const askGroups = async () => {
    try {
      const reply = await topicGroups(view.signal);
      groups = new Map(reply.topics.map((one) => [one.topic, one.groups]));
      list.draw();
    } catch {
      // The column keeps its last state; users who may see no groups see none.
    }
  };
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
  repeat(GROUPS_EVERY_MS, askGroups, view.signal);
}

function nameOf(one) {
  return [
    link(topicHref(one.topic), one.topic),
    one.is_internal && [" ", badge("plain", "internal")],
    one.leaderless > 0 && [" ", badge("bad", `${count(one.leaderless)} without a leader`)],
    one.under_replicated > 0 && [" ", badge("warn", `${count(one.under_replicated)} under-replicated`)],
  ];
}
