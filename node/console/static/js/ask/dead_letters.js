// Dead letters of share groups: some of them, one with its record, and their way back.

import { get, path, post, query } from "../api.js";
import { pageOf, recordOf } from "./records.js";

const where = (group) => path`/v1/groups/${group}/dead-letters`;

/**
 * A page of letters, as `records` gives one, with `topic`, where they are or null, and `copies`. `wish` is that of records;
 * its `topic` is another one than the group's settings say.
 */
export async function deadLetters(group, wish, signal) {
  const told = await get(where(group) + query({ ...wish, format: "BINARY" }), signal);
  return { ...pageOf(told, told.letters.map(letterOf)), topic: told.topic, copies: told.copies_records };
}

/** One letter with the record that it stands for; `problem` says why there is none. */
export async function deadLetter(group, topic, { partition, offset }) {
  const told = await get(where(group) + path`/${partition}/${offset}` + query({ topic, format: "BINARY" }));
  return { ...letterOf(told), content: told.content, problem: told.message };
}

/** Have letters of one origin topic delivered again, from this dead-letter topic. Gives {delivered, failed}. */
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
