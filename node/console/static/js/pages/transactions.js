// Transactional ids and what they have open.

import { transactions } from "../ask/transactions.js";
import { h } from "../dom.js";
import { field, input } from "../form.js";
import { count, many } from "../format.js";
import { brokerHref, transactionHref } from "../hrefs.js";
import { link } from "../parts.js";
import { transactionState } from "../states.js";
import { table } from "../table.js";

export function transactionsPage(view) {
  const state = { search: "", open: false };
  const list = view.live({ every: 5_000, ask: transactions, draw: (all) => draw(all, state, list) });
  const search = input("search", {
    type: "search",
    placeholder: "part of an id",
    oninput: () => {
      state.search = search.value;
      list.draw();
    },
  });
  const open = h("input", {
    type: "checkbox",
    onchange: () => {
      state.open = open.checked;
      list.draw();
    },
  });
  view.show(
    "Transactions",
    h(
      "div",
      { class: "head" },
      h("h1", {}, "Transactions"),
      link("#/transactions/hanging", "Search for hanging ones"),
    ),
    h(
      "div",
      { class: "tools" },
      field("Search", search),
      h("label", { class: "check" }, open, "only what is open"),
    ),
    list,
  );
}

function draw(all, state, list) {
  const wanted = state.search.toLowerCase();
  const shown = all.filter(
    (one) => (!state.open || /ongoing|prepare/i.test(one.state)) && one.id.toLowerCase().includes(wanted),
  );
  return [
    h(
      "p",
      { class: "hint", role: "status" },
      shown.length === all.length
        ? many(all.length, "transactional id")
        : `${count(shown.length)} of ${many(all.length, "transactional id")}`,
    ),
    table({
      caption: "Transactions",
      rows: shown,
      key: (one) => one.id,
      state,
      again: list.draw,
      empty: all.length ? "None is like that." : "No producer has used a transactional id yet.",
      columns: [
        { title: "Transactional id", head: true, cell: (one) => link(transactionHref(one.id), one.id) },
        { title: "State", cell: (one) => transactionState(one.state) },
        { title: "Producer", cell: (one) => String(one.producer) },
        { title: "Coordinator", cell: (one) => link(brokerHref(one.coordinator), String(one.coordinator)) },
      ],
    }),
  ];
}
