// What all pages of a topic begin with: its name, what can be done to all of it, its pages.

import { deleteTopic } from "./ask/topics.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { topicHref } from "./hrefs.js";
import { button, link, say, tabs } from "./parts.js";

export function topicHead(topic, page) {
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
