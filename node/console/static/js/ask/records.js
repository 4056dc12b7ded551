// Records of a topic: a page, a search, a live tail, and producing one.

import { Refused, get, path, post, query } from "../api.js";
import { follow } from "../event_stream.js";
import { fromBase64 } from "../record_bytes.js";
import { cluster } from "./cluster.js";

const MAX_PAGES = 25; // some 4 MB each
// The number of offsets of each partition in the first window of a search, before it reports progress.
const FIRST_WINDOW = 1_000;
const LAST_WINDOW = 50_000;

async function where(topic, partition) {
  const all = (await cluster()) + path`/topics/${topic}`;
  return (partition === null ? all : all + path`/partitions/${partition}`) + "/records";
}

/**
 * Return a page: {records, begins, cursor, isEnd, unread}. `begins` are the offsets where it starts, with those where a
 * search for the newest fell short; `unread` are the partitions that could not be read. `request`: partition or null,
 * `offset` (earliest, an offset, -N before the end, a cursor) or `timestamp` in ms, count, filter.
 */
export async function records(topic, { partition, ...request }, signal) {
  const reply = await get((await where(topic, partition)) + query({ ...request, format: "BINARY" }), signal);
  return pageOf(reply, reply.data.map(recordOf));
}

/** Return a page of the API in the console's form, with these records. */
export function pageOf(reply, records) {
  const unread = reply.unavailable.map((one) => one.partition_id);
  return {
    records,
    begins: reply.begins.map((one) => ({
      partition: one.partition_id,
      offset: one.offset,
      isStart: one.is_start,
      timestamp: one.timestamp_ms,
      fellShort: one.fell_short,
    })),
    cursor: reply.cursor,
    isEnd: reply.is_end,
    unread,
  };
}

/**
 * Search the newest records from the end back, in windows of offsets that grow; `read(request, signal)` returns the pages
 * of a window. After each window, call `report({records, places, unread})` with its records and how far each partition
 * was searched. It returns the time of the oldest record that is still wanted, or null for no limit: a partition
 * searched back to that time, or to the start of its log, is done. To continue a search, pass its last `places` as
 * `from`.
 */
export async function searchBack(read, { from, goal, ...request }, report, signal) {
  let known = from;
  let oldest = goal;
  for (let window = FIRST_WINDOW; ; window = Math.min(window * 2, LAST_WINDOW)) {
    const behind = known?.filter((one) => !isSearched(one, oldest));
    if (behind?.length === 0) return;
    const before = behind && cursorOf(behind);
    const offset = behind ? cursorOf(behind, window) : -window;
    let page = await read({ ...request, offset, before }, signal);
    const found = [...page.records];
    const { begins } = page;
    while (!page.isEnd && (page.records.length > 0 || page.unread.length === 0)) {
      page = await read({ ...request, offset: page.cursor, before }, signal);
      found.push(...page.records);
    }
    known = merged(known ?? [], begins);
    oldest = report({ records: found, places: known, unread: page.unread });
  }
}

const isSearched = ({ isStart, timestamp }, oldest) =>
  isStart || (oldest !== null && timestamp !== null && timestamp <= oldest);

/** Return places as a cursor for the node, moved back by a number of offsets. */
function cursorOf(known, back = 0) {
  return known.map(({ partition, offset }) => `${partition}:${Math.max(0, offset - back)}`).join(",");
}

/** Return how far back each partition was searched; a window without records keeps the earlier time. */
function merged(known, begins) {
  const now = new Map(known.map((one) => [one.partition, one]));
  for (const one of begins) {
    const timestamp = one.timestamp ?? now.get(one.partition)?.timestamp ?? null;
    now.set(one.partition, { ...one, timestamp });
  }
  return [...now.values()].sort((one, other) => one.partition - other.partition);
}

/**
 * Read page after page to the end; `keep(records)` returns those to hold. isEnd is false if there were too many pages.
 */
export async function recordsToTheEnd(topic, request, keep, signal) {
  let page = await records(topic, request, signal);
  const { begins } = page;
  let kept = keep(page.records);
  // A partition that cannot be read has no end; the others are at theirs when a page has no records.
  const hasMore = () => !page.isEnd && (page.records.length > 0 || page.unread.length === 0);
  for (let pages = 1; hasMore() && pages < MAX_PAGES; pages++) {
    page = await records(topic, { ...request, offset: page.cursor }, signal);
    kept = keep([...kept, ...page.records]);
  }
  return { ...page, begins, records: kept };
}

/**
 * Call `got(record)` for each new record and `missed(places)` for records deleted unread; keeps `request.last` up to date.
 */
export async function tail(topic, request, got, missed, signal) {
  const { partition, filter } = request;
  await follow(
    (await where(topic, partition)) + query({ filter, format: "BINARY" }),
    request.last,
    (event, data, id) => {
      if (id !== null) request.last = id; // after a disconnect the tail resumes here
      if (data === null) return;
      const reply = JSON.parse(data);
      if (event === "error") throw new Error(reply.message);
      if (event === "gap") missed(reply);
      if (event === "record") got(recordOf(reply));
    },
    signal,
  );
}

/** Return a record for pages, with its bytes unchanged. */
export function recordOf(one) {
  return {
    partition: one.partition_id,
    offset: one.offset,
    timestamp: one.timestamp_ms,
    key: fromBase64(one.key?.data),
    value: fromBase64(one.value?.data),
    headers: one.headers.map((header) => ({ name: header.name, value: fromBase64(header.value) })),
  };
}

/**
 * Produce a record and return its place; throws if it fails. `key` and `value`: {type, data} or null; headers: [{name,
 * value in base64}].
 */
export async function produce(topic, { partition, key, value, headers }) {
  const report = await post(await where(topic, null), {
    partition_id: partition ?? undefined,
    headers: headers.length ? headers : undefined,
    key: key ?? undefined,
    value: value ?? undefined,
  });
  // The status is that of the stream; the outcome of the record is in its report.
  if (report.error_code !== 200) throw new Refused(report.message, 200, report.error_code);
  return report;
}
