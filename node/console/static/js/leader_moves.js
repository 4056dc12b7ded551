// What came of a request that moves leaders, in a sentence.

import { many } from "./format.js";
import { say } from "./parts.js";

/** Ask, and say how many moved and why the others did not, or what was refused. */
export async function tellMoves(ask) {
  try {
    say(sentence(await ask()));
  } catch (error) {
    say(error.message);
  }
}

export function sentence({ moved, failed, kept }) {
  const stayed = [...failed.map((one) => [one, one.message]), ...kept.map((one) => [one, one.reason])];
  const first = `${many(moved, "leader")} moved.`;
  if (stayed.length === 0) return first;
  const [place, reason] = stayed[0];
  return `${first} ${many(stayed.length, "partition")} stayed: ${place.topic}-${place.partition}: ${reason}`;
}
