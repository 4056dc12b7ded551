// Facts about topics in lists: retention, readers, rate of new records.

import { h } from "./dom.js";
import { bytes, count, digits, duration, many } from "./format.js";
import { topicHref } from "./hrefs.js";
import { badge, link } from "./parts.js";

const LAGGING_MS = 60_000; // a short lag is normal
const LEAST_SPAN_MS = 2_000; // the shortest interval for a rate

/** Return the retention by `cleanup.policy`, `retention.ms` and `retention.bytes`; null if they are not known. */
export function retention(configs) {
  const policy = configs["cleanup.policy"];
  if (!policy) return null;
  const limits = [
    Number(configs["retention.ms"]) >= 0 && duration(configs["retention.ms"]),
    Number(configs["retention.bytes"]) >= 0 && `${bytes(configs["retention.bytes"])} each partition`,
  ].filter(Boolean);
  const deletes = policy.includes("delete") && (limits.join(", ") || "no limit");
  return [policy.includes("compact") && "compacted", deletes].filter(Boolean).join(", ");
}

export const isLagging = ({ lag, lag_ms }) => lag > 0 && lag_ms >= LAGGING_MS;

/** Return the number of groups that read a topic, and of those that lag behind. */
export function groupWords(topic, groups) {
  if (groups.length === 0) return h("span", { class: "hint" }, "none");
  const lagging = groups.filter(isLagging);
  return [
    h("span", { class: "place" }, link(topicHref(topic, "clients"), many(groups.length, "group"))),
    lagging.length > 0 && [" ", badge("warn", `${count(lagging.length)} lagging`)],
  ];
}

/** Keep offsets with their times, to compute rates: `take(topics)`, then `of(name)` returns the rate as text. */
export function writeRates() {
  let before = null;
  let now = null;
  return {
    take(topics) {
      const next = { time: Date.now(), written: new Map(topics.map((one) => [one.topic, one.written])) };
      if (now === null || next.time - now.time >= LEAST_SPAN_MS) [before, now] = [now, next];
    },
    of(name) {
      const [then, last] = [before?.written.get(name) ?? null, now?.written.get(name) ?? null];
      if (then === null || last === null) return null;
      return `${digits((Math.max(0, last - then) / (now.time - before.time)) * 1000)}/s`;
    },
  };
}
