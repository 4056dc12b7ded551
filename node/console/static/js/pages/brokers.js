// All brokers, and taking one out of work.

import { health } from "../ask/cluster.js";
import { rebalanceLeaders } from "../ask/leaders.js";
import { h } from "../dom.js";
import { count } from "../format.js";
import { brokerHref } from "../hrefs.js";
import { tellMoves } from "../leader_moves.js";
import { badge, button, link } from "../parts.js";
import { table } from "../table.js";

export function brokersPage(view) {
  const list = view.live({ every: 3_000, ask: health, draw });
  const rebalance = async () => {
    await tellMoves(rebalanceLeaders);
    list.refresh();
  };
  view.show(
    "Brokers",
    h("div", { class: "head" }, h("h1", {}, "Brokers"), button("Rebalance leaders", rebalance)),
    list,
  );
}

function draw(told) {
  return brokerTable(told);
}

export function brokerTable(told) {
  return table({
    caption: "Brokers",
    rows: told.brokers,
    key: (one) => one.id,
    empty: "No broker is known.",
    columns: [
      { title: "Broker", head: true, cell: (one) => link(brokerHref(one.id), String(one.id)) },
      { title: "State", cell: (one) => brokerState(one, told.controller_id) },
      { title: "Address", cell: (one) => (one.host ? `${one.host}:${one.port}` : "–") },
      { title: "Rack", cell: (one) => one.rack ?? "–" },
      { title: "Leads", number: true, cell: (one) => count(one.leads) },
      { title: "Replicas", number: true, cell: (one) => count(one.replicas) },
      { title: "In sync", number: true, cell: (one) => count(one.in_sync) },
    ],
  });
}

function brokerState(one, controller) {
  return [
    badge(one.state === "active" ? "good" : "warn", one.state),
    one.id === controller && [" ", badge("plain", "controller")],
  ];
}
