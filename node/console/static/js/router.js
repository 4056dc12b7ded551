// The page for an address such as `#/topics/NAME/messages`. A page is a function of its view and the parts of its
// address.

/** `routes`: [pattern, page]; a segment `:name` matches any text. */
export function match(routes, hash) {
  const parts = hash.replace(/^#\/?/, "").split("?")[0].split("/").filter(Boolean);
  for (const [pattern, page] of routes) {
    const wanted = pattern.split("/").filter(Boolean);
    if (wanted.length === parts.length) {
      const found = {};
      if (wanted.every((one, i) => fits(one, parts[i], found))) return { page, found };
    }
  }
  return null;
}

function fits(wanted, part, found) {
  if (!wanted.startsWith(":")) return wanted === part;
  try {
    found[wanted.slice(1)] = decodeURIComponent(part);
    return true;
  } catch {
    return false; // not an address of the console: a single %
  }
}
