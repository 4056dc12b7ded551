// A topic's settings.

import { alterTopicConfig, resetTopicConfig, topicConfigs } from "../ask/configs.js";
import { configList } from "../config_list.js";
import { topicHead } from "../topic_head.js";

export function topicConfigsPage(view, { topic }) {
  view.show(
    `Configs of ${topic}`,
    topicHead(view, topic, "configs"),
    configList(view, {
      owner: `topic ${topic}`,
      load: (signal) => topicConfigs(topic, signal),
      alter: (name, value) => alterTopicConfig(topic, name, value),
      reset: (name) => resetTopicConfig(topic, name),
    }),
  );
}
