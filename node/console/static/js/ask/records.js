// Records of a topic: some of them, those that come, one that goes.

import { Refused, get, path, post, query } from "../api.js";
import { follow } from "../event_stream.js";
import { fromBase64 } from "../record_bytes.js";
import { cluster } from "./cluster.js";

const MAX_PAGES = 25; // some 4 MB each
// Offsets of each partition that a search looks through before it says how far it is.
const FIRST_WINDOW = 1_000;
const LAST_WINDOW = 50_000;

async function where(topic, partition) {
  const all = (await cluster()) + path`/topics/${topic}`;
  return (partition === null ? all : all + path`/partitions/${partition}`) + "/records";
}

/**
 * A page of them: {records, cursor, isEnd, unread}; `unread` are the partitions that could not be asked. `wish`:
 * partition or null, `offset` (earliest, an offset, -N before the end, a cursor) or `timestamp` in ms, count, filter.
 */
export async function records(topic, { partition, ...wish }, signal) {
  const told = await get((await where(topic, partition)) + query({ ...wish, format: "BINARY" }), signal);
  const unread = told.unavailable.map((one) => one.partition_id);
  return {
    records: told.data.map(record),
    begin: told.begin,
    isStart: told.is_start,
    cursor: told.cursor,
    isEnd: told.is_end,
    unread,
  };
}

/**
 * The newest records that a filter wants, searched for from the end back, in windows of offsets that grow. After each
 * window `told({records, begin, looked, isStart, unread})`: what that window had, where it begins, how many offsets
 * were looked through so far. It ends at the start of the log, or when `told` says that it is enough. To go on, give the
 * `begin` and `looked` with which it ended.
 */
export async function searchBack(topic, { from, looked, ...wish }, told, signal) {
  let before = from;
  let window = FIRST_WINDOW;
  for (;;) {
    const begin = before === null ? -window : movedBack(before, window);
    const first = await records(topic, { ...wish, offset: begin, before }, signal);
    const found = [...first.records];
    let page = first;
    while (!page.isEnd && (page.records.length > 0 || page.unread.length === 0)) {
      page = await records(topic, { ...wish, offset: page.cursor, before: before ?? undefined }, signal);
      found.push(...page.records);
    }
    looked += distance(first.begin, before ?? page.cursor);
    before = first.begin;
    const { isStart } = first;
    const isEnough = told({ records: found, begin: before, looked, isStart, unread: page.unread });
    if (isEnough || isStart || before === "") return;
    window = Math.min(window * 2, LAST_WINDOW);
  }
}

const places = (cursor) => cursor.split(",").map((one) => one.split(":").map(Number));

/** A cursor so many offsets before another one. */
function movedBack(cursor, offsets) {
  return places(cursor)
    .map(([partition, offset]) => `${partition}:${Math.max(0, offset - offsets)}`)
    .join(",");
}

function distance(begin, end) {
  const ends = new Map(places(end));
  return places(begin).reduce((sum, [one, offset]) => sum + Math.max(0, (ends.get(one) ?? offset) - offset), 0);
}

/** Page after page to the end, of which `keep(records)` says what is held. isEnd is false where there was too much. */
export async function recordsToTheEnd(topic, wish, keep, signal) {
  let page = await records(topic, wish, signal);
  let kept = keep(page.records);
  // What cannot be read now has no end; the others have theirs when a page has nothing more.
  const goesOn = () => !page.isEnd && (page.records.length > 0 || page.unread.length === 0);
  for (let pages = 1; goesOn() && pages < MAX_PAGES; pages++) {
    page = await records(topic, { ...wish, offset: page.cursor }, signal);
    kept = keep([...kept, ...page.records]);
  }
  return { ...page, records: kept };
}

/** `got(record)` for each that comes, `missed(places)` for what was deleted unread; `wish.last` is kept up to date. */
export async function tail(topic, wish, got, missed, signal) {
  const { partition, filter } = wish;
  await follow(
    (await where(topic, partition)) + query({ filter, format: "BINARY" }),
    wish.last,
    (event, data, id) => {
      if (id !== null) wish.last = id; // who is cut off resumes there
      if (data === null) return;
      const told = JSON.parse(data);
      if (event === "error") throw new Error(told.message);
      if (event === "gap") missed(told);
      if (event === "record") got(record(told));
    },
    signal,
  );
}

function record(one) {
  return {
    partition: one.partition_id,
    offset: one.offset,
    timestamp: one.timestamp_ms,
    key: fromBase64(one.key?.data),
    value: fromBase64(one.value?.data),
    headers: one.headers.map((header) => ({ name: header.name, value: fromBase64(header.value) })),
  };
}

/** `key` and `value`: {type, data} or null; headers: [{name, value in base64}]. Where it went, or why it did not. */
export async function produce(topic, { partition, key, value, headers }) {
  const report = await post(await where(topic, null), {
    partition_id: partition ?? undefined,
    headers: headers.length ? headers : undefined,
    key: key ?? undefined,
    value: value ?? undefined,
  });
  // The status is that of the stream; what became of the record stands in its report.
  if (report.error_code !== 200) throw new Refused(report.message, 200, report.error_code);
  return report;
}
