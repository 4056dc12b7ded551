// Reset a group's offsets: show the change of each partition first, then ask for confirmation.

import { SHARE, group as askGroup, deleteOffsets, resetOffsets } from "../ask/groups.js";
import { offer } from "../choosers.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { choice, decimal, field, form, input, whole } from "../form.js";
import { UNKNOWN, count, many } from "../format.js";
import { groupHead } from "../group_head.js";
import { button, say, section } from "../parts.js";
import { table } from "../table.js";

const TARGETS = [
  ["earliest", "the earliest offset"],
  ["latest", "the latest offset"],
  ["offset", "an offset"],
  ["shift", "the committed offset, shifted"],
  ["datetime", "a time"],
  ["duration", "some time ago"],
];

export function groupResetPage(view, { group }) {
  const plan = h("div", { "aria-live": "polite" });
  const to = choice("to", TARGETS, "earliest");
  const fields = {
    offset: field(
      "Offset",
      input("offset", { inputmode: "numeric" }),
      "The next record to read, the same in each partition.",
    ),
    shift: field("Shift by", input("shift"), "A number of records: 100 skips 100, -100 reads the last 100 again."),
    datetime: field(
      "Time",
      input("datetime", { type: "datetime-local", step: "1" }),
      "In this computer's time zone. Each partition goes to its first record at or after this time.",
    ),
    duration: field(
      "Minutes ago",
      input("duration", { inputmode: "decimal" }),
      "Such as 90 or 0.5. Each partition goes to its first record since then.",
    ),
  };
  const adapt = () =>
    Object.entries(fields).forEach(([name, one]) => {
      one.hidden = to.value !== name;
    });
  to.onchange = adapt;
  adapt();
  const topic = choice("topic", [["", "all topics of the group"]], "");
  const partitions = choice("partitions", [], null, { multiple: true, size: 5 });
  const numbers = field("Partitions", partitions, "If none is chosen: all partitions of the topic.");
  const forgotten = choice("forgotten", [["", "choose a topic"]], "");
  const ofShares = h(
    "p",
    { class: "hint", hidden: true },
    "For a share group, this resets its start offsets: no record before them is delivered again.",
  );
  let read = [];
  topic.onchange = () => {
    const ofTopic = read.filter((one) => one.topic === topic.value);
    numbers.hidden = ofTopic.length === 0;
    partitions.replaceChildren(...ofTopic.map((one) => h("option", { value: one.partition }, one.partition)));
  };
  topic.onchange();
  askGroup(group, view.signal).then(
    ({ type, lags }) => {
      ofShares.hidden = type !== SHARE;
      read = lags;
      const names = new Set(lags.map((one) => one.topic));
      for (const select of [topic, forgotten]) offer(select, names);
    },
    () => {}, // without the list of topics, all of them can be reset
  );
  const made = form(
    {
      label: "Reset offsets",
      action: "Show what would change",
      act: async (values) => {
        plan.replaceChildren();
        const request = requestOf(values, [...partitions.selectedOptions].map((one) => Number(one.value)));
        const { changes } = await resetOffsets(group, { ...request, dry_run: true });
        plan.append(drawPlan(group, request, changes, plan));
      },
    },
    field("Reset to", to),
    Object.values(fields),
    field("Topic", topic),
    numbers,
  );
  view.show(
    `Reset ${group}`,
    groupHead(view, group, "reset"),
    ofShares,
    made,
    plan,
    section("Delete offsets of a topic", forgetForm(group, forgotten)),
  );
}

function forgetForm(group, topics) {
  return form(
    {
      label: "Delete offsets of a topic",
      action: "Delete the offsets…",
      danger: true,
      act: async ({ forgotten }) => {
        const topic = forgotten;
        if (!topic) throw new Error("Choose a topic.");
        const isDone = await ask({
          title: `Delete the offsets of ${group} in ${topic}?`,
          effect: "Members that read the topic later start as in a new group, by auto.offset.reset or share.auto.offset.reset.",
          action: "Delete the offsets",
          act: () => deleteOffsets(group, topic),
        });
        if (isDone) say(`The offsets of ${group} in ${topic} are deleted.`);
      },
    },
    field("Offsets in topic", topics, "No member may be subscribed to it; a share group must have no members."),
  );
}

function drawPlan(group, request, changes, plan) {
  const apply = async () => {
    const isDone = await ask({
      title: `Reset the offsets of ${group}?`,
      effect: `${many(changes.length, "partition gets", "partitions get")} the new offsets shown here. Members that join next start there: after a step back they read records again, after a step forward they never read the skipped ones.`,
      action: "Reset the offsets",
      act: () => resetOffsets(group, { ...request, dry_run: false }),
    });
    if (!isDone) return;
    say(`The offsets of ${group} are reset.`);
    plan.replaceChildren();
  };
  return section(
    "What would change",
    table({
      caption: "What would change",
      rows: changes,
      empty: "Nothing would change.",
      columns: [
        { title: "Topic", head: true, cell: (one) => one.topic },
        { title: "Partition", cell: (one) => String(one.partition) },
        { title: "Committed", number: true, cell: (one) => count(one.offset) },
        { title: "New offset", number: true, cell: (one) => count(one.new_offset) },
        { title: "Note", cell: (one) => one.warning ?? UNKNOWN },
      ],
    }),
    changes.length > 0 &&
      h("div", { class: "actions" }, button("Reset the offsets…", apply, { class: "danger" })),
  );
}

/** Return the body of the request, without `dry_run`. */
function requestOf(values, partitions) {
  const request = { to: values.to };
  if (values.to === "offset") request.value = whole(values.offset, "Offset");
  if (values.to === "shift") request.value = whole(values.shift, "Shift by", { least: -Number.MAX_SAFE_INTEGER });
  if (values.to === "datetime") {
    request.value = new Date(values.datetime).getTime();
    if (Number.isNaN(request.value)) throw new Error("Enter a date and a time.");
  }
  if (values.to === "duration") request.value = Math.round(decimal(values.duration, "Minutes ago") * 60_000);
  if (values.topic) {
    request.topics = [{ topic: values.topic, partitions: partitions.length ? partitions : undefined }];
  }
  return request;
}
