// Updates the page to a new drawing and touches only the differences: focus, selection, scroll positions, and
// everything that the user has opened or typed stay.

// Attributes that the user controls, not the drawing.
const KEPT = new Set(["open"]);

/** Make the children of `place` equal to `fresh` (a node or a list of nodes). */
export function morph(place, fresh) {
  const wanted = document.createElement("div");
  wanted.append(...[fresh].flat(Infinity).filter((one) => one));
  children(place, wanted);
}

function children(old, wanted) {
  const fresh = [...wanted.childNodes];
  const keys = new Set(fresh.map(keyOf).filter(Boolean));
  for (const child of [...old.childNodes]) {
    if (keyOf(child) && !keys.has(keyOf(child))) child.remove();
  }
  const byKey = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let at = old.firstChild;
  for (const next of fresh) {
    const kept = keyOf(next) ? byKey.get(keyOf(next)) : at && !keyOf(at) && isAlike(at, next) ? at : null;
    if (!kept || !isAlike(kept, next)) {
      old.insertBefore(next, at);
    } else {
      if (kept === at) at = at.nextSibling;
      else old.insertBefore(kept, at);
      node(kept, next);
    }
  }
  while (at) {
    const rest = at;
    at = at.nextSibling;
    rest.remove();
  }
}

function node(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  if (old.hasAttribute("data-own")) return; // it draws itself
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && !KEPT.has(name)) old.setAttribute(name, value);
  }
  for (const name of new Set([...(old.listens ?? []), ...(next.listens ?? [])]))
    old[name] = next[name] ?? null;
  old.listens = next.listens;
  children(old, next);
}

function isAlike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

function keyOf(one) {
  return one.nodeType === Node.ELEMENT_NODE ? one.getAttribute("data-key") : null;
}
