// The clients of a topic: the groups that read it, and the producers in the state of its logs.

import { topicGroups, topicProducers } from "../ask/topics.js";
import { h } from "../dom.js";
import { count, duration, many, time } from "../format.js";
import { groupHref } from "../hrefs.js";
import { badge, link, note, section } from "../parts.js";
import { groupState } from "../states.js";
import { table } from "../table.js";
import { topicHead } from "../topic_head.js";
import { isLagging } from "../topic_words.js";

export function topicClientsPage(view, { topic }) {
  const states = [{}, {}];
  const groups = view.live({
    every: 5_000,
    ask: (signal) => topicGroups(signal, topic),
    draw: (reply) => drawGroups(reply, states[0], groups.draw),
  });
  const producers = view.live({
    every: 5_000,
    ask: (signal) => topicProducers(topic, signal),
    draw: (reply) => drawProducers(reply, states[1], producers.draw),
  });
  view.show(
    `Clients of ${topic}`,
    topicHead(view, topic, "clients"),
    section("Groups", groups),
    section(
      "Producers",
      h(
        "p",
        { class: "hint" },
        "Idempotent and transactional producers, by partition, most recent first. Logs have no state of other producers.",
      ),
      producers,
    ),
  );
}

function drawGroups({ topics, groups_left_out }, state, again) {
  return [
    groups_left_out > 0 && note("", `${many(groups_left_out, "more group is", "more groups are")} not shown.`),
    table({
      caption: "Groups",
      rows: topics.flatMap((one) => one.groups),
      key: (one) => one.group_id,
      empty: "No group has committed an offset in this topic.",
      state,
      again,
      columns: [
        { title: "Group", head: true, cell: (one) => link(groupHref(one.group_id), one.group_id) },
        { title: "State", cell: (one) => groupState(one.state) },
        { title: "Type", cell: (one) => one.type },
        {
          title: "Lag",
          number: true,
          cell: (one) => [count(one.lag), isLagging(one) && [" ", badge("warn", "lagging")]],
        },
        { title: "Lag in time", number: true, cell: (one) => duration(one.lag_ms) },
      ],
    }),
  ];
}

function drawProducers({ producers, count: all, unavailable }, state, again) {
  return [
    unavailable.length > 0 &&
      note("warn", `${many(unavailable.length, "partition is", "partitions are")} missing: their leaders do not answer.`),
    all > producers.length && note("", `${count(all - producers.length)} more are not shown.`),
    table({
      caption: "Producers",
      rows: producers,
      key: (one) => `${one.partition}:${one.producer}`,
      empty: "No such producer has written recently.",
      state,
      again,
      columns: [
        { title: "Producer", head: true, cell: (one) => String(one.producer) },
        { title: "Partition", cell: (one) => String(one.partition) },
        { title: "Epoch", number: true, cell: (one) => count(one.epoch) },
        { title: "Last sequence", number: true, cell: (one) => count(one.last_sequence) },
        { title: "Last record", cell: (one) => h("time", {}, time(one.last_record_ms)) },
        {
          title: "Transaction",
          cell: (one) => (one.open_from === null ? "none" : badge("warn", `open from ${count(one.open_from)}`)),
        },
      ],
    }),
  ];
}
