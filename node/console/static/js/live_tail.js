// New records of a topic while the page is visible.

import { NoAnswer } from "./api.js";
import { tail } from "./ask/records.js";
import { repeat } from "./repeat.js";

const AGAIN_MS = 1_000; // until a stream that ended is opened again

/**
 * Call `got(record)` for each new record until `signal`, `missed(places)` for records deleted unread, and
 * `failed(problem)` if the node refuses. A hidden tab stops reading, and continues there once it is visible.
 */
export function followRecords(topic, request, signal, { got, missed, failed }) {
  repeat(
    AGAIN_MS,
    async () => {
      const round = new AbortController();
      const end = () => round.abort();
      const hide = () => document.hidden && end();
      document.addEventListener("visibilitychange", hide);
      signal.addEventListener("abort", end);
      try {
        await tail(topic, request, got, missed, round.signal);
      } catch (problem) {
        // A node that does not answer is shown for the whole page, and asked again.
        if (!round.signal.aborted && !(problem instanceof NoAnswer)) failed(problem);
      } finally {
        document.removeEventListener("visibilitychange", hide);
        signal.removeEventListener("abort", end);
      }
    },
    signal,
  );
}
