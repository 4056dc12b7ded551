// Who is logged in to this console. The id of the session is in a cookie that no script reads; changes are sent with a
// token of the session, which only pages of this node can ask for.

const state = { methods: [], principal: null, token: null, watchers: [] };

/** Whether somebody has to log in before the node tells anything. */
export const needsLogin = () => state.methods.length > 0 && state.principal === null;
/** The name of who is logged in; null where nobody has to. */
export const principal = () => (state.methods.length ? state.principal : null);
export const methods = () => state.methods;
/** Whether there is a session to end: a certificate cannot be taken back. */
export const hasSession = () => state.token !== null;

/** What the node told of the session. */
export function learn({ methods, principal, csrf_token }) {
  const before = state.principal;
  Object.assign(state, { methods, principal, token: csrf_token });
  if (before !== principal) for (const watcher of state.watchers) watcher();
}

/** The node wants a login: the session has ended. */
export function ended() {
  if (state.principal === null) return;
  Object.assign(state, { principal: null, token: null });
  for (const watcher of state.watchers) watcher();
}

/** Call `watcher` when somebody else is logged in, or nobody any more. */
export const whenChanged = (watcher) => state.watchers.push(watcher);

/** The headers of a request by this method. */
export const headersOf = (method) =>
  state.token !== null && method !== "GET" ? { "X-CSRF-Token": state.token } : {};
