// Whether a voter of the quorum takes part.

const SILENT_MS = 10_000; // followers fetch twice a second, or at once when there is something

/** It leads, or the leader has heard it lately; `told` is what the leader tells of the quorum. */
export function isVoterThere(one, told) {
  return one.node === told.leader || silence(one, told) < SILENT_MS;
}

/** For how many ms the leader has not heard it, all by the leader's clock; Infinity where that is not known. */
export function silence(one, told) {
  const now = told.voters.find((voter) => voter.node === told.leader)?.last_fetch_ms;
  return one.last_fetch_ms === null || !now ? Infinity : Math.max(0, now - one.last_fetch_ms);
}
