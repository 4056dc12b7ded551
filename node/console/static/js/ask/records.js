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
 * A page of them: {records, begins, cursor, isEnd, unread}; `begins` are the places where it begins, and where a search
 * for the newest fell short; `unread` are the partitions that could not be asked. `wish`:
 * partition or null, `offset` (earliest, an offset, -N before the end, a cursor) or `timestamp` in ms, count, filter.
 */
export async function records(topic, { partition, ...wish }, signal) {
  const told = await get((await where(topic, partition)) + query({ ...wish, format: "BINARY" }), signal);
  return pageOf(told, told.data.map(recordOf));
}

/** A page that was told, with these records. */
export function pageOf(told, records) {
  const unread = told.unavailable.map((one) => one.partition_id);
  return {
    records,
    begins: told.begins.map((one) => ({
      partition: one.partition_id,
      offset: one.offset,
      isStart: one.is_start,
      timestamp: one.timestamp_ms,
      fellShort: one.fell_short,
    })),
    cursor: told.cursor,
    isEnd: told.is_end,
    unread,
  };
}

/**
 * The newest records that `read(wish, signal)` has pages of, searched for from the end back, in windows of offsets that grow. After each
 * window `told({records, places, unread})`: what that window had, and how far each partition was searched. It answers
 * how old a record may be that is still wanted, or null as long as any is: who was searched back to that time, or to the
 * start of its log, is done. To go on, give the `places` with which it ended as `from`.
 */
export async function searchBack(read, { from, goal, ...wish }, told, signal) {
  let known = from;
  let oldest = goal;
  for (let window = FIRST_WINDOW; ; window = Math.min(window * 2, LAST_WINDOW)) {
    const behind = known?.filter((one) => !isSearched(one, oldest));
    if (behind?.length === 0) return;
    const before = behind && cursorOf(behind);
    const offset = behind ? cursorOf(behind, window) : -window;
    let page = await read({ ...wish, offset, before }, signal);
    const found = [...page.records];
    const { begins } = page;
    while (!page.isEnd && (page.records.length > 0 || page.unread.length === 0)) {
      page = await read({ ...wish, offset: page.cursor, before }, signal);
      found.push(...page.records);
    }
    known = merged(known ?? [], begins);
    oldest = told({ records: found, places: known, unread: page.unread });
  }
}

const isSearched = ({ isStart, timestamp }, oldest) =>
  isStart || (oldest !== null && timestamp !== null && timestamp <= oldest);

/** Places as the node reads them, so many offsets before these. */
function cursorOf(known, back = 0) {
  return known.map(({ partition, offset }) => `${partition}:${Math.max(0, offset - back)}`).join(",");
}

/** Where each partition was searched back to; a window without any record says no time. */
function merged(known, begins) {
  const now = new Map(known.map((one) => [one.partition, one]));
  for (const one of begins) {
    const timestamp = one.timestamp ?? now.get(one.partition)?.timestamp ?? null;
    now.set(one.partition, { ...one, timestamp });
  }
  return [...now.values()].sort((one, other) => one.partition - other.partition);
}

/** Page after page to the end, of which `keep(records)` says what is held. isEnd is false where there was too much. */
export async function recordsToTheEnd(topic, wish, keep, signal) {
  let page = await records(topic, wish, signal);
  const { begins } = page;
  let kept = keep(page.records);
  // What cannot be read now has no end; the others have theirs when a page has nothing more.
  const goesOn = () => !page.isEnd && (page.records.length > 0 || page.unread.length === 0);
  for (let pages = 1; goesOn() && pages < MAX_PAGES; pages++) {
    page = await records(topic, { ...wish, offset: page.cursor }, signal);
    kept = keep([...kept, ...page.records]);
  }
  return { ...page, begins, records: kept };
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
      if (event === "record") got(recordOf(told));
    },
    signal,
  );
}

/** A record as pages show it, its bytes as they are. */
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
