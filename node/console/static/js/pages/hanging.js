// Hanging transactions: open in a log, and unknown to any coordinator, so no coordinator will end them.

import { abortInLog, hanging } from "../ask/transactions.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { field, form, input, whole } from "../form.js";
import { count, duration } from "../format.js";
import { topicHref } from "../hrefs.js";
import { button, link, say } from "../parts.js";
import { table } from "../table.js";

export function hangingPage(view) {
  let longerThanMs = 20 * 60_000; // as in Apache Kafka's own tool: a coordinator has timed out by then
  const list = view.live({
    every: 30_000,
    ask: (signal) => hanging(longerThanMs, signal),
    draw: (all) => draw(all, list),
  });
  const search = form(
    {
      label: "Search",
      action: "Search",
      act: ({ minutes }) => {
        longerThanMs = whole(minutes, "Minutes") * 60_000;
        list.refresh();
      },
    },
    field(
      "Minutes without a new record",
      input("minutes", { value: "20", inputmode: "numeric" }),
      "Transactions that wrote a record later than this are not listed. Default: 20.",
    ),
  );
  view.show(
    "Hanging transactions",
    h("p", { class: "trail" }, link("#/transactions", "Transactions")),
    h("h1", {}, "Hanging transactions"),
    h(
      "p",
      { class: "hint" },
      "These transactions are open in a partition, but no coordinator knows them. Consumers with isolation.level=read_committed cannot read past them.",
    ),
    search,
    list,
  );
}

function draw(all, list) {
  const abort = async (one) => {
    const isDone = await ask({
      title: `Abort the transaction open in ${one.topic}, partition ${one.partition}, from offset ${one.open_from}?`,
      effect: "An abort marker is written to this partition only. If the producer is still alive, its transaction may be committed in other partitions and aborted in this one.",
      action: "Write the abort marker",
      act: () => abortInLog(one.topic, one.partition, one.open_from),
    });
    if (isDone) say("The abort marker is written.");
    list.refresh();
  };
  return table({
    caption: "Hanging transactions",
    rows: all,
    key: (one) => `${one.topic}:${one.partition}:${one.open_from}`,
    empty: "No hanging transactions found.",
    columns: [
      { title: "Topic", head: true, cell: (one) => link(topicHref(one.topic), one.topic) },
      { title: "Partition", cell: (one) => String(one.partition) },
      { title: "Open from offset", number: true, cell: (one) => count(one.open_from) },
      { title: "Producer id", number: true, cell: (one) => String(one.producer) },
      { title: "Idle for", number: true, cell: (one) => duration(one.silent_for_ms) },
      {
        title: "Change",
        cell: (one) =>
          button("Abort…", () => abort(one), { "aria-label": `Abort at offset ${one.open_from}` }),
      },
    ],
  });
}
