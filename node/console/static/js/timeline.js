// The rebalances of a group, newest first: time, duration and cause.

import { h } from "./dom.js";
import { duration, many, time, words } from "./format.js";
import { badge } from "./parts.js";

export function drawTimeline({ rebalances }) {
  if (rebalances === null) return h("p", { class: "empty" }, "This group's coordinator does not record rebalances.");
  if (rebalances.length === 0) return h("p", { class: "empty" }, "No rebalance since the current coordinator took over the group.");
  const newest = [...rebalances].sort((one, other) => other.began_ms - one.began_ms);
  return h("ol", { class: "timeline" }, newest.map(rebalance));
}

function rebalance(one) {
  return h(
    "li",
    { "data-key": `${one.began_ms}:${one.generation_before}` },
    h(
      "p",
      {},
      h("time", {}, time(one.began_ms)),
      " ",
      one.duration_ms === null ? badge("warn", "under way") : `took ${duration(one.duration_ms)}`,
      one.members !== null && `, then ${many(one.members, "member")}`,
      one.generation_after !== null && [
        " ",
        h("span", { class: "hint" }, `generation ${one.generation_before} → ${one.generation_after}`),
      ],
    ),
    h("ul", {}, one.events.map(event)),
    one.events_left_out > 0 && h("p", { class: "hint" }, `and ${many(one.events_left_out, "event")} more`),
  );
}

function event(one) {
  const member = one.client ?? one.member;
  return h(
    "li",
    {},
    h("strong", {}, words(one.cause)),
    member && [" ", member],
    one.reason && [" ", h("span", { class: "hint" }, one.reason)],
  );
}
