// The metadata quorum: its leader, its voters, and the progress of each.

import { quorum } from "../ask/cluster.js";
import { h } from "../dom.js";
import { UNKNOWN, count, duration } from "../format.js";
import { badge, code, facts, section } from "../parts.js";
import { table } from "../table.js";
import { isVoterThere, silence } from "../voters.js";

export function quorumPage(view) {
  view.show("Quorum", h("h1", {}, "Metadata quorum"), view.live({ every: 3_000, ask: quorum, draw }));
}

function draw(told) {
  return [
    facts([
      ["Controller", told.leader === null ? badge("bad", "unknown") : `node ${told.leader}`],
      ["Epoch", count(told.leader_epoch)],
      ["High watermark", count(told.high_watermark)],
      ["Voters", count(told.voters.length)],
    ]),
    section("Voters", members("Voters", told.voters, told, "No voters are known.")),
    section("Observers", members("Observers", told.observers, told, "There are no observers: every node is a voter.")),
  ];
}

function role(one, told) {
  if (one.is_disk_copied) return badge("warn", "no vote yet: copied disk");
  if (one.node === told.leader) return badge("good", "leader");
  if (one.is_disk_old) return badge("warn", "no vote: old disk");
  return isVoterThere(one, told) ? badge("plain", "follower") : badge("warn", "silent");
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
        cell: (one) => role(one, told),
      },
      { title: "Log end offset", number: true, cell: (one) => count(one.log_end_offset) },
      { title: "Lag", number: true, cell: (one) => count(behind(one)) },
      {
        title: "Last fetch",
        number: true,
        cell: (one) =>
          one.node === told.leader || silence(one, told) === Infinity
            ? UNKNOWN
            : `${duration(silence(one, told))} ago`,
      },
      {
        title: "Listener",
        cell: (one) => one.listeners.map((at) => h("div", {}, code(`${at.host}:${at.port}`))),
      },
    ],
  });
}
