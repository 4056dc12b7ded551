// States as words with a mark, which shows those that an operator may leave alone.

import { duration, words } from "./format.js";
import { badge } from "./parts.js";

const GROUP = { stable: "good", empty: "plain", dead: "bad" };
const TRANSACTION = { ongoing: "warn", empty: "plain", "complete commit": "good", "complete abort": "plain" };

export function groupState(state) {
  return marked(GROUP, state);
}

export function transactionState(state) {
  return marked(TRANSACTION, state);
}

/** Return the time after which a transaction is aborted; two-phase commit has none, since only its producer ends it. */
export function timeLimit(reply) {
  return reply.two_phase ? "none: two-phase commit" : duration(reply.timeout_ms);
}

function marked(kinds, state) {
  return badge(kinds[words(state).toLowerCase()] ?? "warn", words(state));
}
