// The part of a page's address after `?`: its filters and the open record, so that a link shows the same.

/** Return the values in the address, as texts by name. */
export function addressed() {
  return Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
}

/** Return an address with these values; empty ones are left out. */
export function withValues(href, values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${href}?${new URLSearchParams(given)}` : href;
}

/** Set values in the address of the current page, beside its others; adds no entry to the browser's history. */
export function keepInAddress(values) {
  history.replaceState(history.state, "", withValues(location.hash.split("?")[0] || "#/", { ...addressed(), ...values }));
}
