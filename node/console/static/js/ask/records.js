// Records of a topic: some of them, those that come, one that goes.

import { Refused, get, path, post, query } from "../api.js";
import { follow } from "../event_stream.js";
import { fromBase64 } from "../record_bytes.js";
import { cluster } from "./cluster.js";

const MAX_PAGES = 25; // some 4 MB each

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
  return { records: told.data.map(record), cursor: told.cursor, isEnd: told.is_end, unread };
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
