// The cluster at a glance: its health, its nodes, its traffic.

import { health, quorum } from "../ask/cluster.js";
import { h } from "../dom.js";
import { count, many } from "../format.js";
import { topicHref } from "../hrefs.js";
import { badge, facts, link, note, section } from "../parts.js";
import { liveCharts } from "../rates.js";
import { isVoterThere } from "../voters.js";
import { brokerTable } from "./brokers.js";

const PROBLEMS = [
  [
    "leaderless",
    "without a leader",
    "bad",
    "Clients cannot read or write them until one of their in-sync replicas comes back.",
  ],
  [
    "offline",
    "with an offline replica",
    "warn",
    "At least one of their replicas is on a broker or a disk that is down.",
  ],
  ["under_min_isr", "under min.insync.replicas", "bad", "Too few replicas are in sync, so producers with acks=all are rejected."],
  ["under_replicated", "under-replicated", "warn", "At least one replica is not in sync: it is behind, or its broker is down."],
  [
    "unclean",
    "without a live replica in sync",
    "bad",
    "Only an unclean leader election can give them a leader now, and it may lose acknowledged records.",
  ],
];

export function overviewPage(view) {
  // Two requests, each drawn when it is answered: without a leader, the quorum answers late or not at all.
  const voters = view.live({ every: 3_000, ask: quorum, draw: drawQuorum });
  const { choose, charts } = liveCharts(view);
  view.show(
    "Overview",
    h("h1", {}, "Overview"),
    view.live({ every: 3_000, ask: health, draw }),
    voters,
    h("section", {}, h("div", { class: "head" }, h("h2", {}, "Throughput and latency"), choose), charts),
  );
}

function drawQuorum(voters) {
  return facts([["Quorum", quorumState(voters)]]);
}

function draw(reply) {
  const problems = PROBLEMS.filter(([name]) => (reply[name]?.count ?? 0) > 0);
  const running = reply.brokers.filter((one) => one.state === "active").length;
  return [
    h(
      "div",
      {
        class: `summary ${reply.is_healthy ? "good" : reply.cut_off_since || problems.some(([, , kind]) => kind === "bad") ? "bad" : "warn"}`,
        role: "status",
      },
      h("strong", {}, reply.is_healthy ? "All is well." : (reply.reason ?? sentence(reply, problems, running))),
      h(
        "span",
        {},
        reply.cut_off_since
          ? "It is not known which brokers are running."
          : `${count(running)} of ${many(reply.brokers.length, "broker")} running`,
      ),
      !reply.is_healthy && link("#/doctor", "See what the doctor finds"),
    ),
    facts([
      ["Brokers", reply.cut_off_since ? badge("bad", "unknown") : `${count(running)} of ${count(reply.brokers.length)}`],
      [
        "Controller",
        reply.controller_id === null || reply.controller_id < 0
          ? badge("bad", "unknown")
          : link("#/quorum", `node ${reply.controller_id}`),
      ],
      ["Partitions", count(reply.partitions)],
    ]),
    facts([
      ...PROBLEMS.map(([name, words, kind]) => [
        words[0].toUpperCase() + words.slice(1),
        amount(reply[name]?.count ?? 0, kind),
      ]),
    ]),
    reply.causes
      .filter((one) => one.subject !== "partition")
      .map((one) => note(one.severity === "problem" ? "bad" : "warn", one.message)),
    problems.map(([name, words, kind, meaning]) => problem(reply[name], words, kind, meaning)),
    section("Brokers", brokerTable(reply)),
  ];
}

function sentence(reply, problems, running) {
  if (problems.length > 0)
    return (
      problems.map(([name, words]) => `${many(reply[name].count, "partition")} ${words}`).join(", ") + "."
    );
  return running < reply.brokers.length
    ? `${many(reply.brokers.length - running, "broker is", "brokers are")} not running.`
    : "The cluster is not healthy.";
}

/** Return the number of voters that follow the leader and may vote; a majority is needed. */
function quorumState(reply) {
  if (reply.leader === null) return badge("bad", "no leader");
  const hasVote = (one) => !one.is_disk_old && !one.is_disk_copied;
  const follow = reply.voters.filter((one) => hasVote(one) && isVoterThere(one, reply)).length;
  const words = `${count(follow)} of ${many(reply.voters.length, "voter")}`;
  if (follow === reply.voters.length) return link("#/quorum", words);
  return badge(follow > reply.voters.length / 2 ? "warn" : "bad", words);
}

function amount(value, kind) {
  return value === 0 ? "0" : badge(kind, count(value));
}

function problem({ count: all, partitions }, words, kind, meaning) {
  const rest = all - partitions.length;
  return note(
    kind,
    h("strong", {}, `${many(all, "partition")} ${words}. `),
    meaning,
    " ",
    partitions
      .slice(0, 20)
      .map((one, i) => [i > 0 && ", ", link(topicHref(one.topic), `${one.topic}-${one.partition}`)]),
    rest + Math.max(0, partitions.length - 20) > 0 &&
      ` and ${count(rest + Math.max(0, partitions.length - 20))} more`,
  );
}
