// The records that come, while somebody looks.

import { NoAnswer } from "./api.js";
import { tail } from "./ask/records.js";
import { repeat } from "./repeat.js";

const AGAIN_MS = 1_000; // after a stream ended

/**
 * Call `got(record)` for each that comes until `signal`, `missed(places)` for what was deleted unread, and
 * `failed(problem)` if the node refuses. A hidden tab asks for nothing, and goes on where it was when it is seen.
 */
export function followRecords(topic, wish, signal, { got, missed, failed }) {
  repeat(
    AGAIN_MS,
    async () => {
      const round = new AbortController();
      const end = () => round.abort();
      const hide = () => document.hidden && end();
      document.addEventListener("visibilitychange", hide);
      signal.addEventListener("abort", end);
      try {
        await tail(topic, wish, got, missed, round.signal);
      } catch (problem) {
        // That the node does not answer is told for the whole page, and asked again.
        if (!round.signal.aborted && !(problem instanceof NoAnswer)) failed(problem);
      } finally {
        document.removeEventListener("visibilitychange", hide);
        signal.removeEventListener("abort", end);
      }
    },
    signal,
  );
}
