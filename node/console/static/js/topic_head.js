// What all pages of a topic begin with: its name, what can be done to all of it, its pages.

import { createTopic, deleteTopic, partitions } from "./ask/topics.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { topicHref } from "./hrefs.js";
import { button, link, note, say, tabs } from "./parts.js";
import { openTopicForm } from "./topic_form.js";

/** The head of a page of a topic; where there is no such topic, the page offers to create it, and nothing else. */
export function topicHead(view, topic, page) {
  partitions(topic, view.signal).catch((problem) => {
    if (problem.status === 404 && !view.signal.aborted) showUnknown(view, topic);
  });
  const erase = () =>
    ask({
      title: `Delete topic ${topic}?`,
      what: [
        `All records of ${topic} are deleted from all brokers. They cannot be brought back.`,
        "Producers and consumers that use it will get errors, or create it again if the cluster creates topics automatically.",
      ],
      action: "Delete the topic",
      act: () => deleteTopic(topic),
    }).then((isDone) => {
      if (!isDone) return;
      say(`Topic ${topic} is deleted.`);
      location.hash = "#/topics";
    });
  return [
    h("p", { class: "trail" }, link("#/topics", "Topics")),
    h("div", { class: "head" }, h("h1", {}, topic), button("Delete…", erase, { class: "danger-quiet" })),
    tabs(
      "Pages of the topic",
      [
        [topicHref(topic), "Partitions"],
        [topicHref(topic, "records"), "Records"],
        [topicHref(topic, "produce"), "Produce"],
        [topicHref(topic, "clients"), "Clients"],
        [topicHref(topic, "configs"), "Configs"],
      ],
      topicHref(topic, page),
    ),
  ];
}

function showUnknown(view, topic) {
  view.end.abort(); // nothing of it is asked again
  const again = () => dispatchEvent(new HashChangeEvent("hashchange")); // its address may be that of this page
  view.show(
    topic,
    h("p", { class: "trail" }, link("#/topics", "Topics")),
    h("h1", {}, topic),
    note("", `There is no topic ${topic}.`),
    h(
      "div",
      { class: "actions" },
      button("Create it…", () => openTopicForm(createTopic, again, topic), { class: "main" }),
    ),
  );
}
