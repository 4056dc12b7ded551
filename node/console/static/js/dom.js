// Elements out of data. Every text that reaches the page goes through `text` here: nothing is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";
// Characters that are not seen, or that turn the reading direction of what follows: shown by their number.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const SAFE_LINK = /^(#|\/(?!\/))/;

/** What a text shows when each of its characters is to be seen; lines and tabs stay. */
export function visible(value) {
  return String(value).replace(UNSEEN, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

export function text(value) {
  return document.createTextNode(visible(value));
}

/** An element: attributes by name, `on...` are listeners, null and false are left out. Children may be lists. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element[name] = value; // a property, since morph.js must be able to take it over
      element.listens = [...(element.listens ?? []), name];
    } else {
      if (name === "href" && !SAFE_LINK.test(value)) throw new Error(`a link out of the console: ${value}`);
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : text(child));
  }
}
