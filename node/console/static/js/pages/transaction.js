// One transactional id: its open transaction and since when, and aborting it.

import { abortTransaction, transaction } from "../ask/transactions.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { count, duration, time } from "../format.js";
import { topicHref } from "../hrefs.js";
import { badge, button, facts, link, say, section } from "../parts.js";
import { timeLimit, transactionState } from "../states.js";
import { table } from "../table.js";

const LOST =
  "Its records are never shown to consumers with isolation.level=read_committed, and its producer is fenced: it gets an error at its next request.";
const PREPARED =
  "It belongs to a two-phase commit. If the other system has already decided to commit, that part stays and this part is lost.";

export function transactionPage(view, { id }) {
  let isTwoPhase = false;
  const abort = async () => {
    const isDone = await ask({
      title: `Abort the transaction of ${id}?`,
      effect: isTwoPhase ? [PREPARED, LOST] : LOST,
      action: "Abort the transaction",
      act: () => abortTransaction(id),
    });
    if (isDone) say(`The transaction of ${id} is aborted.`);
    place.refresh();
  };
  const abortButton = button("Abort…", abort, { class: "danger-quiet", hidden: true });
  const place = view.live({
    every: 3_000,
    ask: (signal) => transaction(id, signal),
    draw: (reply) => {
      isTwoPhase = reply.two_phase;
      abortButton.hidden = reply.state !== "Ongoing"; // a transaction that is being completed cannot be aborted
      return draw(reply);
    },
  });
  view.show(
    id,
    h("p", { class: "trail" }, link("#/transactions", "Transactions")),
    h("div", { class: "head" }, h("h1", {}, id), abortButton),
    place,
  );
}

function draw(reply) {
  return [
    facts([
      ["State", transactionState(reply.state)],
      ["Open for", duration(reply.open_for_ms)],
      ["Started", time(reply.began_ms)],
      ["Timeout", timeLimit(reply)],
      ["Producer", `${reply.producer}, epoch ${reply.epoch}`],
      ["Coordinator", reply.coordinator],
    ]),
    section(
      "Partitions",
      table({
        caption: "Partitions of the transaction",
        rows: reply.partitions,
        key: (one) => `${one.topic}:${one.partition}`,
        empty: "The transaction has no open partitions.",
        columns: [
          { title: "Topic", head: true, cell: (one) => link(topicHref(one.topic), one.topic) },
          { title: "Partition", cell: (one) => String(one.partition) },
          {
            title: "Open from offset",
            number: true,
            cell: openFrom,
          },
        ],
      }),
    ),
  ];
}

function openFrom(one) {
  if (one.deleted) return badge("plain", "deleted");
  return one.leaderless ? badge("plain", "no leader") : count(one.open_from);
}
