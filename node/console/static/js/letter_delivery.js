// Redelivery of dead letters: the confirmation before, and the result as a sentence.

import { deliverAgain } from "./ask/dead_letters.js";
import { ask } from "./dialog.js";
import { count, many } from "./format.js";
import { say } from "./parts.js";
import { placeOf } from "./record_table.js";

const AT_ONCE = 100; // the limit of the node

/** Return a key for a letter, unique within its topic. */
export const keyOf = ({ partition, offset }) => `${partition}:${offset}`;

/**
 * Ask for confirmation, and redeliver letters, those of one origin topic together. `again` maps the letters redelivered
 * so far to their new places, `failed` is the set of those that failed; both are by `keyOf` and kept up to date.
 */
export async function askDelivery(group, topic, letters, { again, failed }) {
  const byTopic = new Map();
  for (const one of letters) byTopic.set(one.origin.topic, [...(byTopic.get(one.origin.topic) ?? []), one]);
  const outcome = { delivered: 0, failed: [] };
  const isOnly = letters.length === 1;
  const act = async () => {
    for (const [origin, some] of byTopic) {
      // A second try does not send the letters that have arrived already.
      const left = some.filter((one) => isOnly || !again.has(keyOf(one)));
      for (let at = 0; at < left.length; at += AT_ONCE) {
        const reply = await deliverSome(group, topic, origin, left.slice(at, at + AT_ONCE), isOnly);
        for (const one of reply.delivered) again.set(keyOf(one), `delivered at offset ${count(one.to.offset)}`);
        for (const one of reply.failed) failed.add(keyOf(one));
        outcome.delivered += reply.delivered.length;
        outcome.failed.push(...reply.failed);
      }
    }
  };
  const isDone = await ask({
    title: isOnly ? "Deliver this letter again?" : `Deliver ${count(letters.length)} letters again?`,
    effect: [
      ...[...byTopic].map(([origin, some]) => goal(origin, some)),
      "Every group that reads the topic gets it, not only this one. The letter is kept: if you deliver it once more, there will be two records.",
    ],
    action: "Deliver again",
    act,
  });
  if (isDone) say(sentence(outcome));
}

function goal(topic, letters) {
  if (letters.length === 1) return `A new record is written to ${topic}, partition ${letters[0].origin.partition}.`;
  const records = many(letters.length, "new record is", "new records are");
  return `${records} written to ${topic}, each to the partition it came from.`;
}

/** Redeliver letters; if there are others, an error counts for these letters alone and the others go on. */
async function deliverSome(group, topic, origin, letters, isOnly) {
  try {
    return await deliverAgain(group, topic, origin, letters);
  } catch (problem) {
    if (isOnly || ![400, 404].includes(problem.status)) throw problem;
    return { delivered: [], failed: letters.map((one) => ({ ...one, message: problem.message })) };
  }
}

function sentence({ delivered, failed }) {
  const first = `${many(delivered, "letter was", "letters were")} delivered again.`;
  if (failed.length === 0) return first;
  return `${first} ${many(failed.length, "was", "were")} not, such as the letter at ${placeOf(failed[0])}: ${failed[0].message}`;
}
