// The records that a share group has in flight: by partition, the most delivered ones, and the members that hold them.

import { h } from "./dom.js";
import { UNKNOWN, count, duration, many, words } from "./format.js";
import { topicHref } from "./hrefs.js";
import { badge, link, section } from "./parts.js";
import { table } from "./table.js";

/** `reply` is a group of /v1/groups/{id}; `state` and `again` are those of `table`. */
export function drawSharePartitions(reply, state, again) {
  const clients = new Map(reply.members.map((one) => [one.member_id, one.client_id || one.member_id]));
  const open = reply.lags.filter((one) => one.in_flight);
  const ranges = (name) =>
    open.flatMap((lag) => lag.in_flight[name].map((one) => ({ ...one, ...placeOf(lag), limit: lag.in_flight.delivery_count_limit })));
  const most = ranges("most_delivered").filter((one) => one.delivery_count > 1);
  const locks = ranges("next_locks");
  return [
    section(
      "Partitions",
      drawPartitions(reply.lags, clients, state, again),
      h(
        "p",
        { class: "hint" },
        "Known while members read: records in flight are held by a member, available records are delivered next, waiting records later. Deliveries: the highest count of a record, and the limit. Oldest for: how long the oldest unfinished record has been the same.",
      ),
    ),
    most.length > 0 &&
      section(
        "Delivered more than once",
        drawRanges("Delivered more than once", most.sort((one, other) => other.delivery_count - one.delivery_count), clients),
      ),
    locks.length > 0 &&
      section(
        "Locks that end next",
        drawRanges("Locks that end next", locks.sort((one, other) => one.lock_left_ms - other.lock_left_ms), clients),
      ),
  ];
}

const placeOf = ({ topic, partition }) => ({ topic, partition });

function drawPartitions(lags, clients, state, again) {
  const inFlight = (of) => (one) => (one.in_flight ? count(of(one.in_flight)) : UNKNOWN);
  return table({
    caption: "Partitions",
    rows: lags,
    key: (one) => `${one.topic}:${one.partition}`,
    empty: "The group has not read any partition, and no member is assigned one.",
    state,
    again,
    columns: [
      {
        title: "Partition",
        head: true,
        cell: (one) => [link(topicHref(one.topic), one.topic), ` ${one.partition}`],
      },
      { title: "Start", number: true, cell: (one) => count(one.committed) },
      { title: "End", number: true, cell: (one) => count(one.log_end_offset) },
      { title: "Lag", number: true, cell: (one) => count(one.lag) },
      { title: "In flight", number: true, cell: inFlight((one) => one.acquired) },
      { title: "Available", number: true, cell: inFlight((one) => one.available) },
      { title: "Waiting", number: true, cell: inFlight((one) => one.delayed + one.backing_off) },
      { title: "Deliveries", number: true, cell: mostDeliveries },
      { title: "Oldest for", number: true, cell: (one) => duration(one.in_flight?.stalled_ms ?? null) },
      { title: "Members", cell: (one) => membersOf(one, clients) },
    ],
  });
}

function mostDeliveries({ in_flight: reply }) {
  const most = reply?.most_delivered[0];
  if (!most) return UNKNOWN;
  const deliveries = `${count(most.delivery_count)} of ${count(reply.delivery_count_limit)}`;
  return most.delivery_count >= reply.delivery_count_limit ? badge("warn", deliveries) : deliveries;
}

function membersOf({ member_ids: ids }, clients) {
  if (ids.length === 0) return UNKNOWN;
  const named = [...new Set(ids.map((one) => clients.get(one) ?? one))];
  return ids.length > 3 ? many(ids.length, "member") : named.join(", ");
}

function drawRanges(caption, rows, clients) {
  return table({
    caption,
    rows,
    key: (one) => `${one.topic}:${one.partition}:${one.first_offset}`,
    empty: "",
    columns: [
      { title: "Topic", head: true, cell: (one) => link(topicHref(one.topic), one.topic) },
      { title: "Partition", cell: (one) => String(one.partition) },
      { title: "Offsets", number: true, cell: offsetsOf },
      { title: "Deliveries", number: true, cell: (one) => `${count(one.delivery_count)} of ${count(one.limit)}` },
      { title: "State", cell: (one) => words(one.state) },
      {
        title: "Held by",
        cell: (one) =>
          one.member === null ? UNKNOWN : h("span", { class: "long" }, clients.get(one.member) ?? one.member),
      },
      { title: "Lock ends in", number: true, cell: (one) => duration(one.lock_left_ms) },
    ],
  });
}

function offsetsOf({ first_offset: first, last_offset: last }) {
  return first === last ? count(first) : `${count(first)} to ${count(last)}`;
}
