// Set a group's offsets anew: what becomes of each partition is shown first, then asked once.

import { deleteOffsets, resetOffsets } from "../ask/groups.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { choice, decimal, field, form, input, whole, wholes } from "../form.js";
import { count, many } from "../format.js";
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
  const made = form(
    {
      label: "Reset offsets",
      action: "Show what would change",
      act: async (values) => {
        plan.replaceChildren();
        const wish = wishOf(values);
        const { changes } = await resetOffsets(group, { ...wish, dry_run: true });
        plan.append(drawPlan(group, wish, changes, plan));
      },
    },
    field("Reset to", to),
    Object.values(fields),
    field("Topic", input("topic"), "Leave empty for all topics in which the group has committed offsets."),
    field(
      "Partitions",
      input("partitions"),
      "Numbers separated by commas, such as 0,1,2. Leave empty for all partitions of the topic.",
    ),
  );
  view.show(
    `Reset ${group}`,
    groupHead(view, group, "reset"),
    h("p", { class: "hint" }, "Of a share group, the start offsets are reset: nothing before them is delivered again."),
    made,
    plan,
    section("Forget a topic", forgetForm(group)),
  );
}

function forgetForm(group) {
  return form(
    {
      label: "Forget a topic",
      action: "Forget the topic…",
      danger: true,
      act: async ({ forgotten }) => {
        const topic = forgotten.trim();
        if (!topic) throw new Error("Enter a topic.");
        const isDone = await ask({
          title: `Have ${group} forget ${topic}?`,
          what: "The offsets of the group in this topic are deleted. Members that read it later start as in a new group, by auto.offset.reset or share.auto.offset.reset.",
          action: "Forget the topic",
          act: () => deleteOffsets(group, topic),
        });
        if (isDone) say(`${group} has forgotten ${topic}.`);
      },
    },
    field("Topic to forget", input("forgotten"), "No member may read it; a share group may have no members at all."),
  );
}

function drawPlan(group, wish, changes, plan) {
  const apply = async () => {
    const isDone = await ask({
      title: `Reset the offsets of ${group}?`,
      what: `${many(changes.length, "partition gets", "partitions get")} the new offsets shown here. Members that join next start there: after a step back they read records again, after a step forward they never read the skipped ones.`,
      action: "Reset the offsets",
      act: () => resetOffsets(group, { ...wish, dry_run: false }),
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
        { title: "Note", cell: (one) => one.warning ?? "" },
      ],
    }),
    changes.length > 0 &&
      h("div", { class: "actions" }, button("Reset the offsets…", apply, { class: "danger" })),
  );
}

/** The body of the request, without `dry_run`. */
function wishOf(values) {
  const wish = { to: values.to };
  if (values.to === "offset") wish.value = whole(values.offset, "Offset");
  if (values.to === "shift") wish.value = whole(values.shift, "Shift by", { least: -Number.MAX_SAFE_INTEGER });
  if (values.to === "datetime") {
    wish.value = new Date(values.datetime).getTime();
    if (Number.isNaN(wish.value)) throw new Error("Enter a date and a time.");
  }
  if (values.to === "duration") wish.value = Math.round(decimal(values.duration, "Minutes ago") * 60_000);
  const topic = values.topic.trim();
  if (topic) {
    const partitions = wholes(values.partitions, "Partitions", { optional: true });
    wish.topics = [{ topic, partitions: partitions ?? undefined }];
  } else if (values.partitions.trim()) throw new Error("Enter the topic that these partitions belong to.");
  return wish;
}
