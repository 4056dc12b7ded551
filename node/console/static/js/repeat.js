// Work that is repeated while the page is visible.

import { pause } from "./connection.js";

/**
 * Do `work` now and again `everyMs` after each end, until `signal`; pauses in a hidden tab. Returns a function that
 * repeats it at once, or, if it is running, once more after it.
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
