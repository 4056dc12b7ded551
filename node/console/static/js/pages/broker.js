// One broker: its state, its directories, its settings, drain and decommission.

import { decommission, drain, drainOf, logDirs, planDecommission, undrain } from "../ask/brokers.js";
import { health } from "../ask/cluster.js";
import { alterBrokerConfig, brokerConfigs, resetBrokerConfig } from "../ask/configs.js";
import { brokerHistory } from "../ask/history.js";
import { BROKER_CHARTS } from "../chart_kinds.js";
import { configList } from "../config_list.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { bytes, count, many } from "../format.js";
import { historyCharts } from "../history_charts.js";
import { reportMoves, sentence } from "../leader_moves.js";
import { badge, button, code, facts, link, note, say, section } from "../parts.js";
import { table } from "../table.js";
import { FENCED, brokerAddress, brokerState } from "./brokers.js";

export function brokerPage(view, { broker }) {
  const dirs = view.live({ every: 5_000, ask: (signal) => logDirs(broker, signal), draw: drawDirs });
  const details = h("div", { class: "live" });
  const state = view.live({
    every: 3_000,
    ask: health,
    draw: (reply) => {
      const found = reply.brokers.find((one) => String(one.id) === broker);
      details.hidden = !found || found.state === FENCED; // they come from the broker
      return found ? drawState(found, reply.controller_id) : note("", `The cluster has no broker ${broker}.`);
    },
  });
  const work = view.live({
    every: 5_000,
    ask: (signal) => drainOf(broker, signal),
    draw: (reply) => h("div", { class: "actions" }, actions(broker, reply, work.refresh)),
  });
  details.append(
    section("Log directories", dirs),
    section("Last hour", historyCharts(view, (signal) => brokerHistory(broker, signal), BROKER_CHARTS)),
    section(
      "Configs",
      configList(view, {
        owner: `broker ${broker}`,
        load: (signal) => brokerConfigs(broker, signal),
        alter: (name, value) => alterBrokerConfig(broker, name, value),
        reset: (name) => resetBrokerConfig(broker, name),
      }),
    ),
  );
  view.show(
    `Broker ${broker}`,
    h("p", { class: "trail" }, link("#/brokers", "Brokers")),
    h(
      "div",
      { class: "head" },
      h("h1", {}, `Broker ${broker}`),
      work,
    ),
    state,
    details,
  );
}

function drawState(one, controller) {
  return [
    facts([
      ["State", brokerState(one, controller)],
      ["Address", brokerAddress(one)],
      ["Rack", one.rack],
      ["Leader of", count(one.leads)],
      ["Replicas", count(one.replicas)],
      ["In sync", count(one.in_sync)],
    ]),
    one.state === FENCED &&
      note(
        "warn",
        "This broker is down, or has no contact with the controller. Its directories, charts and settings are shown when it is back.",
      ),
  ];
}

function actions(broker, reply, refresh) {
  return [
    reply.can_end && badge("warn", reply.is_drained ? "drained" : "drained, except for single replicas"),
    reply.can_end
      ? button("End the drain", () => reportMoves(() => undrain(broker)).then(refresh))
      : button("Drain…", () =>
      ask({
        title: `Drain broker ${broker}?`,
        effect: "Other brokers become the leaders of its partitions and stay so, even if it restarts, until you end the drain. Its replicas stay and keep up with the new leaders.",
        action: "Drain",
        act: async () => say(sentence(await drain(broker))),
      }).then(refresh),
    ),
    button("Decommission…", () => leave(broker), { class: "danger-quiet" }),
  ];
}

/** Take the next step of a decommission, which depends on its progress. */
async function leave(broker) {
  try {
    const { held, planned } = await planDecommission(broker);
    await ask({
      title: `Decommission broker ${broker}?`,
      effect:
        held.count === 0
          ? "It holds no replicas. If it is stopped, it is now removed from the cluster. If it still runs, stop it first."
          : `It holds ${many(held.count, "replica")}. The data of ${many(planned.length, "partition")} is copied to other brokers. When this broker holds no replicas, stop it and choose Decommission again to remove it from the cluster.`,
      action: held.count === 0 ? "Remove it from the cluster" : "Move its replicas",
      act: async () => say(`Broker ${broker}: ${(await decommission(broker)).stage}.`),
    });
  } catch (error) {
    say(error.message);
  }
}

function drawDirs(all) {
  return table({
    caption: "Log directories",
    rows: all,
    key: (one) => one.path,
    empty: "The broker reports no log directories.",
    columns: [
      {
        title: "Directory",
        head: true,
        cell: (one) => [code(one.path), one.error && [" ", badge("bad", one.error.message)]],
      },
      { title: "Replicas", number: true, cell: (one) => count(one.replicas) },
      { title: "Size of logs", number: true, cell: (one) => bytes(one.replica_bytes) },
      { title: "Free", number: true, cell: (one) => bytes(one.usable_bytes) },
      { title: "Size of disk", number: true, cell: (one) => bytes(one.total_bytes) },
    ],
  });
}
