// The bytes of a key, a value or a header: as text where they are text, in hex where they are not.

import { tokensOf, withLetters } from "./json_tokens.js";

const MAX_SHOWN = 64 * 1024; // of one value in the page; more makes browsers slow and nobody reads it
const LINE = 16;
const ESCAPE_LENGTH = 6; // of \u00eb, which is read as one letter

/** Base64 into bytes; null stays null. */
export function fromBase64(encoded) {
  return encoded === null || encoded === undefined
    ? null
    : Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0));
}

export function toBase64(bytes) {
  let whole = "";
  for (const one of bytes) whole += String.fromCharCode(one);
  return btoa(whole);
}

/** The text that the bytes are in UTF-8, or null where they are none, or hold what no text holds. */
export function asText(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** One line for a table. */
export function preview(bytes, length = 120) {
  if (bytes === null) return null;
  const text = asText(bytes.subarray(0, MAX_SHOWN)) ?? (bytes.length > MAX_SHOWN ? asTextCut(bytes) : null);
  if (text !== null) {
    const read = /^\s*[[{]/.test(text) ? withLetters(text.slice(0, length * ESCAPE_LENGTH)) : text;
    return read.length > length ? read.slice(0, length) + "…" : read;
  }
  const start = hexOf(bytes.subarray(0, 24));
  return bytes.length > 24 ? start + " …" : start;
}

/** Which ways there are to read the bytes, the best first: json, text, hex. */
export function ways(bytes) {
  const text = asText(bytes);
  if (text === null) return ["hex", "text"];
  return jsonTokens(bytes, text) === null ? ["text", "hex"] : ["json", "text", "hex"];
}

/** The tokens of an object or a list of JSON that is not too large to be drawn; null for other bytes. */
export function jsonTokens(bytes, text = asText(bytes)) {
  return text !== null && /^\s*[[{]/.test(text) && bytes.length <= MAX_SHOWN ? tokensOf(text) : null;
}

/** As text or in hex. */
export function read(bytes, way) {
  const shown = bytes.subarray(0, MAX_SHOWN);
  const rest = bytes.length - shown.length;
  const more = rest > 0 ? `\n… and ${rest} bytes more` : "";
  if (way === "text") return (asText(shown) ?? asTextCut(bytes)) + more;
  return dump(shown) + more;
}

/** `00000010  6b 65 79 ...  |key...|`, as hexdump writes. */
export function dump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += LINE) {
    const part = bytes.subarray(at, at + LINE);
    const letters = [...part]
      .map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : "."))
      .join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hexOf(part).padEnd(LINE * 3 - 1)}  |${letters}|`);
  }
  return lines.join("\n");
}

function hexOf(bytes) {
  return [...bytes].map((one) => one.toString(16).padStart(2, "0")).join(" ");
}

/** A cut may go through a character. */
function asTextCut(bytes) {
  return new TextDecoder("utf-8").decode(bytes.subarray(0, MAX_SHOWN), { stream: true });
}
