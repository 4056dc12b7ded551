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

function draw(reply) {
  return [
    facts([
      ["Controller", reply.leader === null ? badge("bad", "unknown") : `node ${reply.leader}`],
      ["Epoch", count(reply.leader_epoch)],
      ["High watermark", count(reply.high_watermark)],
      ["Voters", count(reply.voters.length)],
    ]),
    section("Voters", members("Voters", reply.voters, reply, "No voters are known.")),
    section("Observers", members("Observers", reply.observers, reply, "There are no observers: every node is a voter.")),
  ];
}

function role(one, reply) {
  if (one.is_disk_copied) return badge("warn", "no vote yet: copied disk");
  if (one.node === reply.leader) return badge("good", "leader");
  if (one.is_disk_old) return badge("warn", "no vote: old disk");
  return isVoterThere(one, reply) ? badge("plain", "follower") : badge("warn", "silent");
}

function members(caption, rows, reply, empty) {
  const behind = (one) =>
    one.log_end_offset === null ? null : Math.max(0, reply.high_watermark - one.log_end_offset);
  return table({
    caption,
    rows,
    key: (one) => one.node,
    empty,
    columns: [
      { title: "Node", head: true, cell: (one) => String(one.node) },
      {
        title: "Role",
        cell: (one) => role(one, reply),
      },
      { title: "Log end offset", number: true, cell: (one) => count(one.log_end_offset) },
      { title: "Lag", number: true, cell: (one) => count(behind(one)) },
      {
        title: "Last fetch",
        number: true,
        cell: (one) =>
          one.node === reply.leader || silence(one, reply) === Infinity
            ? UNKNOWN
            : `${duration(silence(one, reply))} ago`,
      },
      {
        title: "Listener",
        cell: (one) => one.listeners.map((at) => h("div", {}, code(`${at.host}:${at.port}`))),
      },
    ],
  });
}
