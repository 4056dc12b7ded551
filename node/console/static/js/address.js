// What stands behind the `?` of a page's address: its filters and what is open, so that a link shows the same.

/** The values in the address, texts by name. */
export function addressed() {
  return Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
}

/** An address with these values; empty ones are left out. */
export function withValues(href, values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${href}?${new URLSearchParams(given)}` : href;
}

/** Put values into the address of the page that is shown, beside those which it has; no new step to go back from. */
export function keepInAddress(values) {
  history.replaceState(history.state, "", withValues(location.hash.split("?")[0] || "#/", { ...addressed(), ...values }));
}
