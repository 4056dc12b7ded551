// JSON drawn with one member per line, coloured by kind; objects and lists can be folded.

import { h } from "./dom.js";
import { many } from "./format.js";
import { withLetters } from "./json_tokens.js";

// Deeper levels cannot be folded and are not indented: a hostile value has thousands of them.
const MAX_DEPTH = 40;
const CLOSING = { "{": "}", "[": "]" };

/** Return elements and texts for a `pre`, from the tokens of a document. */
export function jsonTree(tokens) {
  const root = { out: [], count: 0, isObject: false };
  const open = [root];
  let now = root;
  let depth = 0;
  const line = () => "\n" + "  ".repeat(Math.min(depth, MAX_DEPTH));
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at];
    if (token in CLOSING) {
      if (tokens[at + 1] === CLOSING[token]) {
        write(now, token + CLOSING[token]);
        at += 1;
        continue;
      }
      depth += 1;
      const inner = depth > MAX_DEPTH ? now : { out: [], count: 1, isObject: token === "{" };
      if (inner === now) write(now, token);
      open.push(inner);
      now = inner;
      write(now, line());
    } else if (token === "}" || token === "]") {
      depth -= 1;
      write(now, line());
      const ended = open.pop();
      now = open.at(-1);
      if (ended === now) write(now, token);
      else now.out.push(foldable(ended));
    } else if (token === ",") {
      if (depth <= MAX_DEPTH) now.count += 1;
      write(now, "," + line());
    } else if (token === ":") {
      write(now, ": ");
    } else {
      now.out.push(h("span", { class: kindOf(token, tokens[at + 1]) }, withLetters(token)));
    }
  }
  return root.out;
}

/** Adjacent texts become one node. */
function write(place, text) {
  const last = place.out.length - 1;
  if (typeof place.out[last] === "string") place.out[last] += text;
  else place.out.push(text);
}

function kindOf(token, next) {
  if (token.startsWith('"')) return next === ":" ? "json-name" : "json-text";
  return /^[-\d]/.test(token) ? "json-number" : "json-word";
}

/** Draw an object or a list in its brackets, with a button that hides its content. */
function foldable({ out, count, isObject }) {
  const [start, end] = isObject ? "{}" : "[]";
  const words = many(count, isObject ? "member" : "element");
  const inside = h("span", {}, out);
  const instead = h("span", { class: "json-folded", hidden: true }, ` … ${words} `);
  const fold = h("button", {
    type: "button",
    class: "fold",
    "aria-expanded": "true",
    "aria-label": `${isObject ? "Object" : "List"} of ${words}`,
    onclick: () => {
      inside.hidden = !inside.hidden;
      instead.hidden = !inside.hidden;
      fold.setAttribute("aria-expanded", String(!inside.hidden));
    },
  });
  return h("span", {}, fold, start, inside, instead, end);
}
