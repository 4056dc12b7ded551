// Throttles for the copying of replicas: show, set and remove them.

import { clearThrottles, setThrottles, throttles } from "../ask/throttles.js";
import { brokerChoice, topicChoice } from "../choosers.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { decimal, field, form, input } from "../form.js";
import { UNKNOWN, bytes } from "../format.js";
import { brokerHref, topicHref } from "../hrefs.js";
import { moveHead } from "../move_head.js";
import { button, dotted, link, say, section } from "../parts.js";
import { table } from "../table.js";

const MIB = 1024 * 1024;
// Kinds of rates by their name in the API, with a label, a hint, and the setting of the rate.
const KINDS = [
  ["leader", "Sent, MiB/s", "What a broker sends to followers:", "leader.replication.throttled.rate"],
  ["follower", "Fetched, MiB/s", "What a broker fetches from leaders:", "follower.replication.throttled.rate"],
  ["log_dirs", "Between its disks, MiB/s", "What a broker copies between its log directories."],
];

export function throttlesPage(view) {
  const list = view.live({ every: 5_000, ask: throttles, draw: (reply) => draw(reply, list) });
  const brokers = brokerChoice(view, "Brokers", "If none is chosen: all running brokers.");
  const named = topicChoice(view, "topics", { multiple: true });
  const made = form(
    {
      label: "Set limits",
      action: "Set the limits",
      act: async (values) => {
        const topics = [...named.selectedOptions].map((one) => one.value);
        await setThrottles(ratesOf(values), brokers.chosen().length ? brokers.chosen() : null, topics);
        say("The limits are set.");
        list.refresh();
      },
    },
    KINDS.map(([kind, word, hint, setting]) =>
      field(word, input(kind, { inputmode: "decimal" }), [hint, setting && [" ", dotted(setting)]]),
    ),
    brokers.element,
    field("Topics", named, "The rates for sending and fetching apply to their replicas."),
  );
  view.show(
    "Throttles",
    moveHead("#/reassignments/throttles"),
    h(
      "p",
      { class: "hint" },
      "Limits slow down replicas that are catching up; replicas in sync are not slowed down. Empty fields keep the present limits. Rates for sending and fetching have no effect until topics are named.",
    ),
    list,
    section("Set limits", made),
  );
}

function ratesOf(values) {
  const rates = {};
  for (const [kind, word] of KINDS) {
    const rate = decimal(values[kind], word, { optional: true });
    if (rate !== null) rates[kind] = Math.max(1, Math.round(rate * MIB));
  }
  return rates;
}

function draw(reply, list) {
  const clear = async () => {
    const isDone = await ask({
      title: "Remove all limits?",
      effect: "The limits of all brokers and topics are removed. Replicas are then copied as fast as disks and network allow.",
      action: "Remove all limits",
      act: clearThrottles,
    });
    if (isDone) say("All limits were removed.");
    list.refresh();
  };
  const rate = (value) => (value === null ? UNKNOWN : `${bytes(value)}/s`);
  if (reply.brokers.length + reply.topics.length === 0) return h("p", { class: "empty" }, "There are no limits.");
  return [
    table({
      caption: "Limits of brokers",
      rows: reply.brokers,
      key: (one) => one.broker_id,
      empty: "No broker has a rate, so naming topics has no effect.",
      columns: [
        {
          title: "Broker",
          head: true,
          cell: (one) => link(brokerHref(one.broker_id), String(one.broker_id)),
        },
        { title: "Sent", number: true, cell: (one) => rate(one.leader_bytes_per_second) },
        { title: "Fetched", number: true, cell: (one) => rate(one.follower_bytes_per_second) },
        { title: "Between its disks", number: true, cell: (one) => rate(one.log_dirs_bytes_per_second) },
      ],
    }),
    table({
      caption: "Limits of topics",
      rows: reply.topics,
      key: (one) => one.topic,
      empty: "No topic is named, so the rates for sending and fetching have no effect.",
      columns: [
        { title: "Topic", head: true, cell: (one) => link(topicHref(one.topic), one.topic) },
        { title: "Throttled when sending", cell: (one) => replicas(one.leader_replicas) },
        { title: "Throttled when fetching", cell: (one) => replicas(one.follower_replicas) },
      ],
    }),
    h("div", { class: "actions" }, button("Remove all limits…", clear, { class: "danger-quiet" })),
  ];
}

/** Return replicas as text: each is PARTITION:BROKER, or * for all. */
function replicas(all) {
  if (all.length === 0) return "none";
  return all.includes("*") ? "all" : all.join(", ");
}
