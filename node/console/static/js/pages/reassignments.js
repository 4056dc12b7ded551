// Reassignments, their progress, and starting one.

import { cancel, reassign, reassignments } from "../ask/reassignments.js";
import { brokerChoice, partitionChoice, topicChoice } from "../choosers.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { choice, field, form } from "../form.js";
import { UNKNOWN, bytes } from "../format.js";
import { topicHref } from "../hrefs.js";
import { moveHead } from "../move_head.js";
import { button, link, say, section } from "../parts.js";
import { table } from "../table.js";

export function reassignmentsPage(view) {
  const list = view.live({ every: 2_000, ask: reassignments, draw: (all) => drawMoves(all, list) });
  const topic = topicChoice(view, "topic", { onchange: () => follow() });
  const partition = partitionChoice(view, "partition", { onchange: () => tick() });
  const leader = choice("leader", [], null);
  const brokers = brokerChoice(view, "Brokers", "All brokers that are to have a replica.", () => offerLeaders());
  let known = [];
  const follow = async () => {
    known = [];
    try {
      known = await partition.of(topic.value);
    } catch (problem) {
      say(problem.message);
    }
    tick();
  };
  const tick = () => {
    const replicas = known.find((one) => String(one.partition) === partition.value)?.replicas ?? [];
    brokers.tick(replicas);
    offerLeaders(replicas[0]);
  };
  const offerLeaders = (preferred = Number(leader.value)) => {
    const options = brokers.chosen().map((id) => h("option", { value: id, selected: id === preferred }, `broker ${id}`));
    leader.replaceChildren(...options);
  };
  const made = form(
    {
      label: "Move a partition",
      action: "Move…",
      act: async (values) => {
        if (values.topic === "") throw new Error("Choose a topic.");
        if (!values.partition) throw new Error("Choose a partition.");
        if (brokers.chosen().length === 0) throw new Error("Choose at least one broker.");
        const number = Number(values.partition);
        const first = Number(values.leader);
        const replicas = [first, ...brokers.chosen().filter((id) => id !== first)];
        const isDone = await ask({
          title: `Move ${values.topic}, partition ${number}?`,
          effect: `Its replicas will be on ${replicas.length === 1 ? "broker" : "brokers"} ${replicas.join(", ")}, and broker ${first} will be the preferred leader. Brokers without a replica copy the data first.`,
          action: "Move it",
          act: () => reassign(values.topic, number, replicas),
        });
        if (isDone) say(`${values.topic}, partition ${number}, is being moved.`);
        list.refresh();
      },
    },
    field("Topic", topic),
    field("Partition", partition),
    brokers.element,
    field("Preferred leader", leader),
  );
  view.show("Reassignments", moveHead("#/reassignments"), list, section("Move a partition", made));
}

/** Draw the moves under way with their progress; `list` is refreshed when one is cancelled. */
export function drawMoves(all, list) {
  const stop = async (one) => {
    const isDone = await ask({
      title: `Stop the move of ${one.topic}, partition ${one.partition}?`,
      effect: "The replicas stay where they were before the move. Data copied so far is deleted.",
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
