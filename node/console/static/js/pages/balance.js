// The plan that gives all brokers equal shares: before and after, its moves, its execution and its cancellation.

import { balance, beginBalance, cancelBalance } from "../ask/balance.js";
import { reassignments } from "../ask/reassignments.js";
import { bars } from "../bars.js";
import { perSecond } from "../chart_kinds.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { UNKNOWN, bytes, count, duration, many } from "../format.js";
import { topicHref } from "../hrefs.js";
import { moveHead } from "../move_head.js";
import { button, link, note, say, section } from "../parts.js";
import { table } from "../table.js";
import { drawMoves } from "./reassignments.js";

const percent = (value) => (value === null ? UNKNOWN : `${count(value * 100)} %`);
// Title, a broker's share, and its format.
const SHARES = [
  ["Replicas", "replicas", count],
  ["Leaders", "leaders", count],
  ["Size of logs", "size_bytes", bytes],
  ["Disk in use", "fill", percent],
  ["Bytes in", "bytes_in", perSecond(bytes)],
];

export function balancePage(view) {
  const state = {};
  let isOn = false;
  const plan = view.live({
    every: 5_000,
    ask: async (signal) => {
      // Growth of partitions belongs to the plan; the progress of a running balance does not need it.
      const reply = await balance(!isOn, signal);
      isOn = reply.requested || reply.moving.length > 0;
      return reply;
    },
    draw: (reply) => draw(reply, state, plan),
  });
  const moving = view.live({ every: 2_000, ask: reassignments, draw: (all) => drawMoving(all, moving) });
  view.show("Balance", moveHead("#/reassignments/balance"), plan, moving);
}

function draw(reply, state, place) {
  const isMeasured = reply.brokers.some(({ before, after }) => before.bytes_in + after.bytes_in > 0);
  return [
    drawState(reply, place.refresh),
    h(
      "div",
      { class: "charts" },
      SHARES.filter(([, name]) => name !== "bytes_in" || isMeasured).map(([title, name, show]) =>
        bars({
          title,
          show,
          rows: reply.brokers.map((one) => ({
            name: `broker ${one.broker}`,
            before: one.before[name],
            after: one.after[name],
          })),
        }),
      ),
    ),
    section(
      isBusy(reply) ? "Moves that are left" : "Moves of the plan",
      drawPlan(reply, state, place.draw),
      reply.move_count > reply.moves.length &&
        h("p", { class: "hint" }, `The first ${count(reply.moves.length)} of ${many(reply.move_count, "move")}.`),
    ),
  ];
}

const isBusy = ({ requested, moving }) => requested || moving.length > 0;

function drawState(reply, refresh) {
  const left = many(reply.move_count, "partition");
  const cost =
    reply.copied_bytes === 0
      ? "no data to copy"
      : `${bytes(reply.copied_bytes)} to copy, at least ${duration(reply.least_ms)} at ${bytes(reply.max_bytes_per_second)}/s for each broker`;
  // An administrator may have started these moves without a balance.
  const isBalance = reply.requested || reply.enabled;
  const moves = many(reply.moving.length, "partition moves", "partitions move");
  const begin = button("Execute…", () => execute(left, cost).then(refresh), { class: "main" });
  const end = button("Cancel…", () => cancel(reply.enabled).then(refresh), { class: "danger-quiet" });
  const [kind, title, more] = isBusy(reply)
    ? ["warn", `${isBalance ? "The cluster is being balanced: " : ""}${moves}.`, `${left} left, ${cost}`]
    : reply.move_count === 0
      ? ["good", "The cluster is balanced: nothing is left to move.", ""]
      : ["warn", `${left} would change.`, cost];
  return [
    h(
      "div",
      { class: `summary ${kind}`, role: "status" },
      h("strong", {}, title),
      more && h("span", {}, more),
    ),
    reply.enabled &&
      note("", "The cluster balances itself (ottla.balance.enable): it executes such plans by itself."),
    (isBusy(reply) || reply.move_count > 0) && h("div", { class: "actions" }, isBusy(reply) ? end : begin),
  ];
}

async function execute(left, cost) {
  const isDone = await ask({
    title: "Balance the cluster?",
    effect: [
      `${left} change: ${cost}. The controller moves some partitions at a time. If it fails, the next controller continues.`,
      "The plan is computed again during the balance, so the moves may differ from those shown here.",
    ],
    action: "Balance the cluster",
    act: beginBalance,
  });
  if (isDone) say("The controller balances the cluster.");
}

async function cancel(isEnabled) {
  let cancelled = [];
  const isDone = await ask({
    title: "Cancel the balance?",
    effect: [
      "No further moves are started, and partitions that are moving now stay where they were. Data copied so far for them is deleted; moves that are complete stay.",
      isEnabled && "The cluster balances itself again later, because ottla.balance.enable is true.",
    ].filter(Boolean),
    action: "Cancel the balance",
    act: async () => {
      cancelled = await cancelBalance();
    },
  });
  if (isDone) say(`The balance is cancelled. ${many(cancelled.length, "move was", "moves were")} reverted.`);
}

function drawPlan({ moves }, state, again) {
  return table({
    caption: "Moves",
    rows: moves,
    key: (one) => `${one.topic}:${one.partition}`,
    empty: "Nothing is left to move.",
    state,
    again,
    columns: [
      { title: "Topic", head: true, cell: (one) => link(topicHref(one.topic), one.topic) },
      { title: "Partition", cell: (one) => String(one.partition) },
      { title: "Replicas", cell: (one) => `${one.replicas.join(", ")} → ${one.new_replicas.join(", ")}` },
      { title: "Copied", number: true, cell: (one) => (isOrder(one) ? "nothing" : bytes(one.copied_bytes)) },
      { title: "Reason", cell: (one) => one.reason },
    ],
  });
}

/** Return true if the brokers stay the same and only the preferred leader changes. */
const isOrder = (one) => one.new_replicas.every((id) => one.replicas.includes(id));

function drawMoving(all, list) {
  return all.length > 0 && section("Moves under way", drawMoves(all, list));
}
