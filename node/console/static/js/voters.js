// The presence of a voter in the quorum.

const SILENT_MS = 10_000; // followers fetch twice a second, or at once when there are new records

/**
 * Return true if it leads, or the leader has received a fetch of it lately; `reply` is the leader's view of the quorum.
 */
export function isVoterThere(one, reply) {
  return one.node === reply.leader || silence(one, reply) < SILENT_MS;
}

/** Return the ms since its last fetch, by the leader's clock; Infinity if unknown. */
export function silence(one, reply) {
  const now = reply.voters.find((voter) => voter.node === reply.leader)?.last_fetch_ms;
  return one.last_fetch_ms === null || !now ? Infinity : Math.max(0, now - one.last_fetch_ms);
}
