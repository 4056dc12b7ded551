// The records that the user wants, from the values of the form, and the page that results.

import { whole } from "./form.js";
import { count, many } from "./format.js";

const MAX_COUNT = 10_000; // the limit of the node

/**
 * {request, newest, isSearch}: the request to the node, the number of the newest records wanted or null, and true if they
 * have to be searched for, for example with a filter. An error names its field.
 */
export function selectionOf(values) {
  const wanted = whole(values.count, "Maximum records", { least: 1 });
  if (wanted > MAX_COUNT) throw new Error(`Maximum records must be at most ${MAX_COUNT}.`);
  const request = {
    partition: values.partition === "" ? null : Number(values.partition),
    filter: values.filter,
    count: wanted,
  };
  if (values.from === "latest") {
    if (values.filter) return { request: { ...request, count: MAX_COUNT }, newest: wanted, isSearch: true };
    return { request: { ...request, offset: -wanted, count: MAX_COUNT }, newest: wanted };
  }
  if (values.from === "offset") request.offset = whole(values.place, "Offset");
  else if (values.from === "time") request.timestamp = momentOf(values.at);
  else request.offset = "earliest";
  return { request, newest: null };
}

/** Return the time of a field, which is in this computer's time zone, in ms. */
export function momentOf(text) {
  const ms = new Date(text).getTime();
  if (Number.isNaN(ms)) throw new Error("Enter a date and a time.");
  return ms;
}

/** Return the text for such a field; "" for an invalid time. */
export function localMoment(ms) {
  if (!/^\d{1,14}$/.test(ms ?? "")) return null;
  const at = new Date(Number(ms));
  if (Number.isNaN(at.getTime())) return null;
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 23);
}

/** Return this many of the records, newest first. */
export function newestOf(records, newest) {
  return [...records]
    .sort((one, other) => other.timestamp - one.timestamp || other.offset - one.offset)
    .slice(0, newest);
}

/** Return the part of an answer to show: {records, cursor or null, a sentence about them}. */
export function pageOf({ newest }, { records, begins, cursor, isEnd, unread }) {
  const without = unreadWords(unread);
  if (newest === null) return { records, cursor: isEnd ? null : cursor, words: without };
  const newer = isEnd || unread.length > 0 ? "" : " of those that could be read; newer records exist";
  const short = begins.filter((one) => one.fellShort);
  const older = short.length === 0 ? "" : `; records before ${placesOf(short)} were not searched`;
  return { records, cursor: null, words: `, the newest first${newer}${older}${without}` };
}

/** Return the end of a sentence with the partitions that could not be read; "" without any. */
export function unreadWords(unread) {
  if (unread.length === 0) return "";
  return `; ${unread.length === 1 ? "partition" : "partitions"} ${unread.join(", ")} cannot be read now`;
}

/** Return how far back a search came, in words; partitions searched to their start are not mentioned. */
export function searchedWords(places) {
  const open = places.filter((one) => !one.isStart);
  if (places.length === 0) return "nothing searched yet";
  if (open.length === 0) return "searched back to the oldest record";
  return `searched back to ${placesOf(open)}`;
}

const NAMED = 5; // places named in a sentence

function placesOf(places) {
  const named = places.slice(0, NAMED).map((one) => `offset ${count(one.offset)} of partition ${one.partition}`);
  const more = places.length - named.length;
  return named.join(", ") + (more > 0 ? ` and so on in ${many(more, "more partition")}` : "");
}
