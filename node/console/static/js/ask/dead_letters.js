// Dead letters of share groups: a page of them, one with its record, and their redelivery.

import { get, path, post, query } from "../api.js";
import { pageOf, recordOf } from "./records.js";

const where = (group) => path`/v1/groups/${group}/dead-letters`;

/**
 * Return a page of letters in the form of `records`, with `topic` (where they are, or null) and `copies`. `request` is
 * that of records; its `topic` replaces the one in the group's settings.
 */
export async function deadLetters(group, request, signal) {
  const reply = await get(where(group) + query({ ...request, format: "BINARY" }), signal);
  return { ...pageOf(reply, reply.letters.map(letterOf)), topic: reply.topic, copies: reply.copies_records };
}

/** Return a letter with its record; `problem` says why there is no record. */
export async function deadLetter(group, topic, { partition, offset }) {
  const reply = await get(where(group) + path`/${partition}/${offset}` + query({ topic, format: "BINARY" }));
  return { ...letterOf(reply), content: reply.content, problem: reply.message };
}

/** Redeliver letters of one origin topic from this dead-letter topic. Returns {delivered, failed}. */
export const deliverAgain = (group, topic, origin, letters) =>
  post(`${where(group)}/deliver` + query({ topic }), {
    topic: origin,
    letters: letters.map(({ partition, offset }) => ({ partition, offset })),
  });

function letterOf(one) {
  return {
    ...recordOf(one),
    origin: one.origin,
    deliveries: one.delivery_count,
    reason: one.reason,
    hasCopy: one.has_copy,
  };
}
