// A group: its members and their partitions, its lag, its rebalances.

import { SHARE, group as askGroup, timeline } from "../ask/groups.js";
import { groupHistory } from "../ask/history.js";
import { GROUP_CHARTS } from "../chart_kinds.js";
import { groupHead } from "../group_head.js";
import { h } from "../dom.js";
import { UNKNOWN, count, duration, many } from "../format.js";
import { historyCharts } from "../history_charts.js";
import { topicHref } from "../hrefs.js";
import { facts, link, section } from "../parts.js";
import { drawSharePartitions } from "../share_partitions.js";
import { groupState } from "../states.js";
import { table } from "../table.js";
import { drawTimeline } from "../timeline.js";

export function groupPage(view, { group }) {
  const state = {};
  const now = view.live({
    every: 3_000,
    ask: (signal) => askGroup(group, signal),
    draw: (reply) => {
      rebalances.hidden = reply.type === SHARE; // members of a share group revoke no partitions
      return draw(reply, state, now);
    },
  });
  const past = view.live({ every: 5_000, ask: (signal) => timeline(group, signal), draw: drawTimeline });
  const rebalances = section("Rebalances", past);
  const charts = historyCharts(view, (signal) => groupHistory(group, signal), GROUP_CHARTS);
  view.show(group, groupHead(view, group, ""), now, section("Last hour", charts), rebalances);
}

function draw(reply, state, place) {
  const known = reply.lags.filter((one) => one.lag !== null);
  const ages = reply.lags.map((one) => one.lag_ms).filter((one) => one !== null);
  return [
    facts([
      ["State", groupState(reply.state)],
      ["Type", reply.type],
      ["Assignor", reply.assignor || UNKNOWN],
      ["Members", count(reply.members.length)],
      ["Lag in records", known.length ? count(known.reduce((sum, one) => sum + one.lag, 0)) : UNKNOWN],
      reply.type !== SHARE && ["Lag in time", ages.length ? duration(Math.max(...ages)) : UNKNOWN],
    ]),
    section("Members", drawMembers(reply)),
    reply.type === SHARE
      ? drawSharePartitions(reply, state, place.draw)
      : section("Lag by partition", drawLags(reply, state, place)),
  ];
}

function drawMembers({ members }) {
  return table({
    caption: "Members",
    rows: members,
    key: (one) => one.member_id,
    empty: "The group has no members.",
    columns: [
      {
        title: "Member",
        head: true,
        cell: (one) => h("span", { class: "long" }, one.instance_id || one.member_id),
      },
      { title: "Client", cell: (one) => one.client_id || UNKNOWN },
      { title: "Host", cell: (one) => one.host || UNKNOWN },
      { title: "Assignment", cell: (one) => assignment(one.partitions) },
    ],
  });
}

function assignment(partitions) {
  if (partitions.length === 0) return h("span", { class: "hint" }, "no partitions");
  const byTopic = new Map();
  for (const { topic, partition } of partitions)
    byTopic.set(topic, [...(byTopic.get(topic) ?? []), partition]);
  return [...byTopic].map(([topic, numbers]) =>
    h(
      "div",
      {},
      link(topicHref(topic), topic),
      " ",
      many(numbers.length, "partition"),
      ": ",
      numbers.join(", "),
    ),
  );
}

function drawLags({ lags, members }, state, place) {
  const clients = new Map(members.map((one) => [one.member_id, one.client_id]));
  return table({
    caption: "Lag by partition",
    rows: lags,
    key: (one) => `${one.topic}:${one.partition}`,
    empty: "The group has no committed offsets and no assigned partitions.",
    state,
    again: place.draw,
    columns: [
      { title: "Topic", head: true, cell: (one) => link(topicHref(one.topic), one.topic) },
      { title: "Partition", cell: (one) => String(one.partition) },
      { title: "Committed", number: true, cell: (one) => count(one.committed) },
      { title: "End offset", number: true, cell: (one) => count(one.log_end_offset) },
      { title: "Lag", number: true, cell: (one) => count(one.lag) },
      { title: "Lag in time", number: true, cell: (one) => duration(one.lag_ms) },
      { title: "Client", cell: (one) => clients.get(one.member_id) || UNKNOWN },
    ],
  });
}
