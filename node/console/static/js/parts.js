// Small parts of pages.

import { h } from "./dom.js";
import { UNKNOWN } from "./format.js";

/** A word with a mark: its kind is good, warn, bad or plain. Marks differ in shape and in colour. */
export function badge(kind, word) {
  return h("span", { class: `badge ${kind}` }, word);
}

/** Names and values; a value may be a node. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(Boolean)
      .map(([name, value]) =>
        h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, value ?? UNKNOWN)),
      ),
  );
}

/** A part of a page under its heading. */
export function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), children);
}

export function note(kind, ...children) {
  return h("p", { class: `note ${kind}` }, children);
}

export function link(href, ...children) {
  return h("a", { href }, children);
}

export function button(word, onclick, more = {}) {
  return h("button", { type: "button", onclick, ...more }, word);
}

export function code(value) {
  return h("code", {}, value);
}

/** A dotted name, which breaks between its words where space is narrow. */
export function dotted(name) {
  return code(name.split(/(?<=\.)/).flatMap((word, i) => (i > 0 ? [h("wbr"), word] : word)));
}

/** Links between the pages of one resource; `now` is the href of the current page. */
export function tabs(label, pairs, now) {
  return h(
    "nav",
    { class: "tabs", "aria-label": label },
    pairs.map(([href, word]) => h("a", { href, "aria-current": href === now ? "page" : null }, word)),
  );
}

/** Show a sentence at the bottom of the page; screen readers read it aloud. */
export function say(sentence) {
  const place = document.getElementById("announcement");
  const line = h("p", {}, sentence);
  place.append(line);
  setTimeout(() => line.remove(), 6_000);
}
