// Whether the node answers; one place knows, the page tells it in one sentence.

const RETRY_MS = 2_000;
const state = { isUp: true, cutOff: null, since: Date.now(), watchers: [] };

export function report(isUp) {
  if (isUp) state.since = Date.now();
  if (isUp === state.isUp) return;
  state.isUp = isUp;
  for (const watcher of state.watchers) watcher();
}

/** Tell since when the node is cut off from the metadata quorum, or that it is not (null). */
export function reportCutOff(since) {
  if (since === state.cutOff) return;
  state.cutOff = since;
  for (const watcher of state.watchers) watcher();
}

/** How long to wait with the next question: a node that is down is asked often, for one that is back is news. */
export function pause(everyMs) {
  return state.isUp ? everyMs : Math.min(everyMs, RETRY_MS);
}

/** Draw the sentence into `place`, and take it away again. */
export function tellIn(place) {
  state.watchers.push(() => {
    const time = new Date(state.since).toLocaleTimeString();
    const sentence = `The node at ${location.host} has not answered since ${time}. This page shows what it answered last. The console asks it again every two seconds.`;
    const old = state.cutOff
      ? `This node has been cut off from the metadata quorum since ${new Date(state.cutOff).toLocaleTimeString()}. This page may be out of date, and the controller is unknown.`
      : "";
    place.textContent = state.isUp ? old : sentence;
  });
}
