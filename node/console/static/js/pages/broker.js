// One broker: its directories, its settings, out of work and back.

import { decommission, drain, logDirs, planDecommission, undrain } from "../ask/brokers.js";
import { alterBrokerConfig, brokerConfigs, resetBrokerConfig } from "../ask/configs.js";
import { configList } from "../config_list.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { bytes, count, many } from "../format.js";
import { sentence, tellMoves } from "../leader_moves.js";
import { badge, button, code, link, say, section } from "../parts.js";
import { table } from "../table.js";

export function brokerPage(view, { broker }) {
  const dirs = view.live({ every: 5_000, ask: (signal) => logDirs(broker, signal), draw: drawDirs });
  view.show(
    `Broker ${broker}`,
    h("p", { class: "trail" }, link("#/brokers", "Brokers")),
    h(
      "div",
      { class: "head" },
      h("h1", {}, `Broker ${broker}`),
      h("div", { class: "actions" }, actions(broker)),
    ),
    section("Log directories", dirs),
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
}

function actions(broker) {
  return [
    button("Drain…", () =>
      ask({
        title: `Drain broker ${broker}?`,
        what: "Other brokers take over its leadership, across restarts too, until you return it. Its replicas stay and follow.",
        action: "Drain it",
        act: async () => say(sentence(await drain(broker))),
      }),
    ),
    button("Take back", () => tellMoves(() => undrain(broker))),
    button("Decommission…", () => leave(broker), { class: "danger-quiet" }),
  ];
}

/** One step on its way out; what that is depends on how far it is. */
async function leave(broker) {
  try {
    const { held, planned } = await planDecommission(broker);
    await ask({
      title: `Decommission broker ${broker}?`,
      what:
        held.count === 0
          ? "It holds nothing any more. If it is stopped, it is now removed from the cluster; otherwise stop it first."
          : `It holds ${many(held.count, "replica")}. ${many(planned.length, "partition")} move to other brokers, which copies all that is in them. When it is empty, stop it and come here again: then it is forgotten.`,
      action: held.count === 0 ? "Remove it from the cluster" : "Move everything away",
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
    empty: "The broker reports none.",
    columns: [
      {
        title: "Directory",
        head: true,
        cell: (one) => [code(one.path), one.error && [" ", badge("bad", one.error.message)]],
      },
      { title: "Replicas", number: true, cell: (one) => count(one.replicas) },
      { title: "Logs", number: true, cell: (one) => bytes(one.replica_bytes) },
      { title: "Free", number: true, cell: (one) => bytes(one.usable_bytes) },
      { title: "Disk", number: true, cell: (one) => bytes(one.total_bytes) },
    ],
  });
}
