// A topic's partitions: leaders, replicas, offsets and sizes.

import { topicHistory } from "../ask/history.js";
import { electPreferred } from "../ask/leaders.js";
import { addPartitions, partitions } from "../ask/topics.js";
import { TOPIC_CHARTS } from "../chart_kinds.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { field, form, input, whole } from "../form.js";
import { bytes, count, many } from "../format.js";
import { historyCharts } from "../history_charts.js";
import { brokerHref } from "../hrefs.js";
import { askUnclean, openTransfer, reportMoves } from "../leader_moves.js";
import { badge, button, facts, link, say, section } from "../parts.js";
import { table } from "../table.js";
import { topicHead } from "../topic_head.js";

export function topicPage(view, { topic }) {
  const list = view.live({
    every: 3_000,
    ask: (signal) => partitions(topic, signal),
    draw: (all) => draw(topic, all, list),
  });
  const more = form(
    {
      label: "More partitions",
      action: "Add partitions…",
      act: async (values) => {
        const wanted = whole(values.count, "Partitions", { least: 1 });
        const isDone = await ask({
          title: `Increase ${topic} to ${many(wanted, "partition")}?`,
          effect: "Partitions cannot be removed again, and records with a key may go to different partitions than before.",
          action: "Add the partitions",
          act: () => addPartitions(topic, wanted),
        });
        if (isDone) {
          say(`${topic} has ${many(wanted, "partition")}.`);
          list.refresh();
        }
      },
    },
    field(
      "New number of partitions",
      input("count", { inputmode: "numeric" }),
      "The total, not the number to add. It can only be increased.",
    ),
  );
  const charts = historyCharts(view, (signal) => topicHistory(topic, signal), TOPIC_CHARTS);
  view.show(topic, topicHead(view, topic, ""), list, section("Last hour", charts), section("More partitions", more));
}

function draw(topic, all, list) {
  const sum = (name) => all.reduce((whole, one) => whole + (one[name] ?? 0), 0);
  const records = all.reduce(
    (whole, one) => whole + Math.max(0, (one.log_end_offset ?? 0) - (one.log_start_offset ?? 0)),
    0,
  );
  return [
    facts([
      ["Partitions", count(all.length)],
      ["Offsets in use", count(records)],
      ["Size on leaders", bytes(sum("size_bytes"))],
      ["In sync", inSync(all)],
    ]),
    drawElections(topic, all, list.refresh),
    table({
      caption: `Partitions of ${topic}`,
      rows: all,
      key: (one) => one.partition,
      empty: "It has no partitions.",
      state: (list.state ??= {}),
      again: list.draw,
      columns: [
        { title: "Partition", head: true, cell: (one) => String(one.partition) },
        {
          title: "Leader",
          cell: (one) =>
            one.leader === null ? badge("bad", "none") : link(brokerHref(one.leader), String(one.leader)),
        },
        { title: "Replicas", cell: (one) => one.replicas.join(", ") },
        { title: "In sync", cell: isrCell },
        { title: "First offset", number: true, cell: (one) => count(one.log_start_offset) },
        { title: "End offset", number: true, cell: (one) => count(one.log_end_offset) },
        { title: "Size", number: true, cell: (one) => bytes(one.size_bytes) },
        {
          title: "Change",
          cell: (one) =>
            one.leader !== null && one.isr.length > 1
              ? button("Leader…", () => openTransfer(topic, one, list.refresh), {
                  "aria-label": `Transfer the leadership of partition ${one.partition}`,
                })
              : h("span", { class: "hint" }, "no other replica in sync"),
        },
      ],
    }),
  ];
}

/** Draw the elections that would change this topic. */
function drawElections(topic, all, refresh) {
  const places = (some) => some.map((one) => ({ topic, partition: one.partition }));
  const others = all.filter((one) => one.leader !== null && one.leader !== one.replicas[0]);
  const leaderless = all.filter((one) => one.leader === null);
  return [
    leaderless.length > 0 &&
      h(
        "div",
        { class: "note bad", "data-key": "unclean" },
        h(
          "p",
          {},
          `${many(leaderless.length, "partition has", "partitions have")} no leader, because no broker with an in-sync or eligible replica is running. They get a leader again as soon as such a broker comes back.`,
        ),
        button("Unclean leader election…", () => askUnclean(places(leaderless), refresh), {
          class: "danger-quiet",
        }),
      ),
    others.length > 0 &&
      h(
        "div",
        { class: "note", "data-key": "preferred" },
        h(
          "p",
          {},
          `${many(others.length, "partition is", "partitions are")} not led by the preferred leader, the first replica.`,
        ),
        button("Elect preferred leaders", async () => {
          await reportMoves(() => electPreferred(places(others)));
          refresh();
        }),
      ),
  ];
}

/** Replicas outside the ISR may be eligible to lead (KIP-966): they have all committed records. */
function isrCell(one) {
  const eligible = one.eligible_leader_replicas ?? [];
  const behind = one.replicas.filter((replica) => !one.isr.includes(replica) && !eligible.includes(replica));
  const last = one.isr.length + eligible.length === 0 ? (one.last_known_elr ?? []) : [];
  return [
    one.isr.join(", ") || "none",
    eligible.length > 0 && [" ", badge("warn", `${eligible.join(", ")} eligible`)],
    behind.length > 0 && [" ", badge("warn", `${behind.join(", ")} behind`)],
    last.length > 0 && [" ", badge("plain", `${last.join(", ")} led last`)],
  ];
}

function inSync(all) {
  const behind = all.filter((one) => one.isr.length < one.replicas.length).length;
  return behind === 0
    ? badge("good", "all replicas")
    : badge("warn", `${many(behind, "partition")} under-replicated`);
}
