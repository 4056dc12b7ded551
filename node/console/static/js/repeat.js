// Work that is done again and again while somebody looks.

import { pause } from "./connection.js";

/**
 * Do `work` now and every `everyMs` after it ended, until `signal`; a hidden tab rests. Returns a way to have it
 * done at once, or once more if it is being done.
 */
export function repeat(everyMs, work, signal) {
  let wake = () => {};
  let isWanted = false;
  const run = async () => {
    while (!signal.aborted) {
      isWanted = false;
      if (!document.hidden) await work();
      if (!isWanted) await rest(pause(everyMs));
    }
  };
  const rest = (ms) =>
    new Promise((resolve) => {
      const timer = document.hidden ? null : setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  document.addEventListener("visibilitychange", () => wake(), { signal });
  signal.addEventListener("abort", () => wake());
  run();
  return () => {
    isWanted = true;
    wake();
  };
}
