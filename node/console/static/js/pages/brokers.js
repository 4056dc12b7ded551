// All brokers, and draining one.

import { health } from "../ask/cluster.js";
import { rebalanceLeaders } from "../ask/leaders.js";
import { h } from "../dom.js";
import { UNKNOWN, bytes, count } from "../format.js";
import { brokerHref } from "../hrefs.js";
import { reportMoves } from "../leader_moves.js";
import { badge, button, link } from "../parts.js";
import { perSecond } from "../chart_kinds.js";
import { flowNow, watchRates } from "../rates.js";
import { table } from "../table.js";

export const FENCED = "fenced"; // the state of a broker that is down
const bytesPerSecond = perSecond(bytes);

export function brokersPage(view) {
  // The list is shown at once; the rates, which may be late or fail, are drawn when they arrive.
  const ask = async (signal) => {
    watchRates(signal).then(
      () => list.draw(),
      () => {},
    );
    return health(signal);
  };
  const list = view.live({ every: 3_000, ask, draw: brokerTable });
  const rebalance = async () => {
    await reportMoves(rebalanceLeaders);
    list.refresh();
  };
  view.show(
    "Brokers",
    h("div", { class: "head" }, h("h1", {}, "Brokers"), button("Rebalance leaders", rebalance)),
    list,
  );
}

/** Draw the table with the latest rates. */
export function brokerTable(reply) {
  return table({
    caption: "Brokers",
    rows: reply.brokers,
    key: (one) => one.id,
    empty: "No brokers are known.",
    columns: [
      { title: "Broker", head: true, cell: (one) => link(brokerHref(one.id), String(one.id)) },
      { title: "State", cell: (one) => brokerState(one, reply.controller_id) },
      { title: "Address", cell: brokerAddress },
      { title: "Rack", cell: (one) => one.rack ?? UNKNOWN },
      { title: "Leader of", number: true, cell: (one) => count(one.leads) },
      { title: "Replicas", number: true, cell: (one) => count(one.replicas) },
      { title: "In sync", number: true, cell: (one) => count(one.in_sync) },
      { title: "Bytes in", number: true, cell: (one) => flow(one.id, "bytes_in_per_second") },
      { title: "Bytes out", number: true, cell: (one) => flow(one.id, "bytes_out_per_second") },
    ],
  });
}

function flow(id, meter) {
  const now = flowNow(id);
  return now === null ? UNKNOWN : bytesPerSecond(now[meter]);
}

export const brokerAddress = (one) => (one.host ? `${one.host}:${one.port}` : UNKNOWN);

export function brokerState(one, controller) {
  return [
    badge(one.state === "active" ? "good" : "warn", one.state),
    one.id === controller && [" ", badge("plain", "controller")],
  ];
}
