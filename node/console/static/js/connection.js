// The state of the connection to the node, which the page shows as one sentence.

const RETRY_MS = 2_000;
const state = { isUp: true, cutOff: null, since: Date.now(), watchers: [] };

export function report(isUp) {
  if (isUp) state.since = Date.now();
  if (isUp === state.isUp) return;
  state.isUp = isUp;
  for (const watcher of state.watchers) watcher();
}

/** Set the time since when the node is cut off from the metadata quorum; null if it is not. */
export function reportCutOff(since) {
  if (since === state.cutOff) return;
  state.cutOff = since;
  for (const watcher of state.watchers) watcher();
}

/** Return the wait before the next request: short while the node is down, so that the page soon sees it back. */
export function pause(everyMs) {
  return state.isUp ? everyMs : Math.min(everyMs, RETRY_MS);
}

/** Show the sentence in `place`, and remove it when it no longer holds. */
export function showIn(place) {
  state.watchers.push(() => {
    const time = new Date(state.since).toLocaleTimeString();
    const sentence = `The node at ${location.host} has not answered since ${time}. This page shows its last answers. The console retries every two seconds.`;
    const old = state.cutOff
      ? `This node has been cut off from the metadata quorum since ${new Date(state.cutOff).toLocaleTimeString()}. This page may be out of date, and the controller is unknown.`
      : "";
    place.textContent = state.isUp ? old : sentence;
  });
}
