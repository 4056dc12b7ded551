// Elements from data. Every text on the page goes through `text` here: no text is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";
// Characters that are invisible, or that change the direction of the text after them: shown as their number.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const SAFE_LINK = /^(#|\/(?!\/))/;

/** Return a text in which every character is visible; line ends and tabs stay. */
export function visible(value) {
  return String(value).replace(INVISIBLE, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

export function text(value) {
  return document.createTextNode(visible(value));
}

/** Make an element: attributes by name, `on...` are listeners, null and false are left out. Children may be lists. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Make an element of SVG, like `h`. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element[name] = value; // as a property, so that morph.js can copy it
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
