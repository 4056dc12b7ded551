// The session of this console. Its id is in a cookie that no script can read; changes are sent with a token of the
// session, which only pages of this node can ask for.

const state = { methods: [], principal: null, token: null, watchers: [] };

/** Return true if the user has to log in before the node answers. */
export const needsLogin = () => state.methods.length > 0 && state.principal === null;
/** Return the name of the user who is logged in; null if no login is needed. */
export const principal = () => (state.methods.length ? state.principal : null);
export const methods = () => state.methods;
/** Return true if there is a session to end: a certificate has none. */
export const hasSession = () => state.token !== null;

/** Take over the session in an answer of the node. */
export function setSession({ methods, principal, csrf_token }) {
  const before = state.principal;
  Object.assign(state, { methods, principal, token: csrf_token });
  if (before !== principal) for (const watcher of state.watchers) watcher();
}

/** Note that the node requires a login: the session has ended. */
export function ended() {
  if (state.principal === null) return;
  Object.assign(state, { principal: null, token: null });
  for (const watcher of state.watchers) watcher();
}

/** Call `watcher` when the user changes: another login, or a logout. */
export const whenChanged = (watcher) => state.watchers.push(watcher);

/** Return the headers of a request with this method. */
export const headersOf = (method) =>
  state.token !== null && method !== "GET" ? { "X-CSRF-Token": state.token } : {};
