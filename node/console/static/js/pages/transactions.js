// Transactional ids and their open transactions.

import { transactions } from "../ask/transactions.js";
import { h } from "../dom.js";
import { duration } from "../format.js";
import { brokerHref, transactionHref } from "../hrefs.js";
import { link } from "../parts.js";
import { searchedList } from "../searched_list.js";
import { timeLimit, transactionState } from "../states.js";

export function transactionsPage(view) {
  const { tools, list } = searchedList(view, {
    ask: transactions,
    counts: (one, onlyOpen) => !onlyOpen || /ongoing|prepare/i.test(one.state),
    words: (one) => one.id,
    noun: "transactional id",
    placeholder: "part of an id",
    box: "only open transactions",
    caption: "Transactions",
    key: (one) => one.id,
    none: "There are no transactional ids yet.",
    notFound: "No transactional id matches.",
    columns: () => [
      { title: "Transactional id", head: true, cell: (one) => link(transactionHref(one.id), one.id) },
      { title: "State", cell: (one) => transactionState(one.state) },
      { title: "Open for", number: true, cell: (one) => duration(one.open_for_ms) },
      { title: "Timeout", number: true, cell: timeLimit },
      { title: "Producer", cell: (one) => String(one.producer) },
      { title: "Coordinator", cell: (one) => link(brokerHref(one.coordinator), String(one.coordinator)) },
    ],
  });
  view.show(
    "Transactions",
    h(
      "div",
      { class: "head" },
      h("h1", {}, "Transactions"),
      link("#/transactions/hanging", "Find hanging transactions"),
    ),
    tools,
    list,
  );
}
