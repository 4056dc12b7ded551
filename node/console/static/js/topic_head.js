// The head of all pages of a topic: its name, actions on the whole topic, links to its pages.

import { createTopic, deleteTopic, partitions } from "./ask/topics.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { topicHref } from "./hrefs.js";
import { button, link, note, say, tabs } from "./parts.js";
import { openTopicForm } from "./topic_form.js";

/** The head of a page of a topic; if the topic does not exist, the page offers only to create it. */
export function topicHead(view, topic, page) {
  partitions(topic, view.signal).catch((problem) => {
    if (problem.status === 404 && !view.signal.aborted) showUnknown(view, topic);
  });
  const erase = () =>
    ask({
      title: `Delete topic ${topic}?`,
      effect: [
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
  view.end.abort(); // ends all requests about it
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
