// Partitions that move, how far they are, and moving one.

import { cancel, reassign, reassignments } from "../ask/reassignments.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { field, form, input, whole, wholes } from "../form.js";
import { UNKNOWN, bytes } from "../format.js";
import { topicHref } from "../hrefs.js";
import { moveHead } from "../move_head.js";
import { button, link, say, section } from "../parts.js";
import { table } from "../table.js";

export function reassignmentsPage(view) {
  const list = view.live({ every: 2_000, ask: reassignments, draw: (all) => draw(all, list) });
  const made = form(
    {
      label: "Move a partition",
      action: "Move…",
      act: async (values) => {
        const topic = values.topic.trim();
        const partition = whole(values.partition, "Partition");
        const replicas = wholes(values.replicas, "Brokers");
        const isDone = await ask({
          title: `Move ${topic}, partition ${partition}?`,
          what: `Its replicas will be on ${replicas.length === 1 ? "broker" : "brokers"} ${replicas.join(", ")}, and broker ${replicas[0]} will be the preferred leader. Brokers without a replica copy the data first.`,
          action: "Move it",
          act: () => reassign(topic, partition, replicas),
        });
        if (isDone) say(`${topic}, partition ${partition}, is being moved.`);
        list.refresh();
      },
    },
    field("Topic", input("topic")),
    field("Partition", input("partition", { inputmode: "numeric" })),
    field("Brokers", input("replicas"), "Ids of all brokers that are to have a replica, the preferred leader first, such as 1,2,0."),
  );
  view.show("Reassignments", moveHead("#/reassignments"), list, section("Move a partition", made));
}

function draw(all, list) {
  const stop = async (one) => {
    const isDone = await ask({
      title: `Stop the move of ${one.topic}, partition ${one.partition}?`,
      what: "The replicas stay where they were before the move. Data copied so far is deleted.",
      action: "Stop the move",
      act: () => cancel(one.topic, one.partition),
    });
    if (isDone) say("The move is stopped.");
    list.refresh();
  };
  return table({
    caption: "Moves under way",
    rows: all,
    key: (one) => `${one.topic}:${one.partition}`,
    empty: "No moves are under way.",
    columns: [
      { title: "Topic", head: true, cell: (one) => link(topicHref(one.topic), one.topic) },
      { title: "Partition", cell: (one) => String(one.partition) },
      { title: "Replicas", cell: (one) => one.replicas.join(", ") },
      { title: "Adding", cell: (one) => one.adding.join(", ") || "–" },
      { title: "Removing", cell: (one) => one.removing.join(", ") || "–" },
      { title: "Copied", cell: progress },
      {
        title: "Change",
        cell: (one) =>
          button("Stop…", () => stop(one), {
            "aria-label": `Stop the move of ${one.topic}, partition ${one.partition}`,
          }),
      },
    ],
  });
}

function progress(one) {
  if (one.percent === null) return UNKNOWN;
  return [
    h("progress", { value: one.percent, max: 100, "aria-label": `Copied of partition ${one.partition}` }),
    ` ${Math.floor(one.percent)} %, ${bytes(one.bytes_left)} left`,
  ];
}
