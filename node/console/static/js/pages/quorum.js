// The metadata quorum: who decides, who votes, how far each is.

import { quorum } from "../ask/cluster.js";
import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { badge, code, facts, section } from "../parts.js";
import { table } from "../table.js";

export function quorumPage(view) {
  view.show("Quorum", h("h1", {}, "Metadata quorum"), view.live({ every: 3_000, ask: quorum, draw }));
}

function draw(told) {
  return [
    facts([
      ["Controller", told.leader === null ? badge("bad", "none") : `node ${told.leader}`],
      ["Epoch", count(told.leader_epoch)],
      ["High watermark", count(told.high_watermark)],
      ["Voters", count(told.voters.length)],
    ]),
    section("Voters", members("Voters", told.voters, told, "Nobody votes.")),
    section("Observers", members("Observers", told.observers, told, "There are none: every node votes.")),
  ];
}

function members(caption, rows, told, empty) {
  const behind = (one) =>
    one.log_end_offset === null ? null : Math.max(0, told.high_watermark - one.log_end_offset);
  return table({
    caption,
    rows,
    key: (one) => one.node,
    empty,
    columns: [
      { title: "Node", head: true, cell: (one) => String(one.node) },
      {
        title: "Role",
        cell: (one) => (one.node === told.leader ? badge("good", "leads") : badge("plain", "follows")),
      },
      { title: "Log end", number: true, cell: (one) => count(one.log_end_offset) },
      { title: "Behind", number: true, cell: (one) => count(behind(one)) },
      {
        title: "Last heard",
        number: true,
        cell: (one) =>
          one.node === told.leader || one.last_fetch_ms === null
            ? "–"
            : `${duration(Math.max(0, Date.now() - one.last_fetch_ms))} ago`,
      },
      {
        title: "Listener",
        cell: (one) => one.listeners.map((at) => h("div", {}, code(`${at.host}:${at.port}`))),
      },
    ],
  });
}
