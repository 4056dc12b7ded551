// The bytes of a key, a value or a header: as text if they are text, otherwise in hex.

import { tokensOf, withLetters } from "./json_tokens.js";

const MAX_SHOWN = 64 * 1024; // of a value on the page; more slows browsers down and is too long to read
const LINE = 16;
const ESCAPE_LENGTH = 6; // of \u00eb, which is one letter

/** Decode base64 to bytes; null stays null. */
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

/** Return the bytes as text if they are UTF-8 without control characters, or null. */
export function asText(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** Return a single line for a table. */
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

/** Return the ways to read the bytes, the best first: json, text, hex. */
export function ways(bytes) {
  const text = asText(bytes);
  if (text === null) return ["hex", "text"];
  return jsonTokens(bytes, text) === null ? ["text", "hex"] : ["json", "text", "hex"];
}

/** Return the tokens of a JSON object or list, unless it is too large to draw; null for other bytes. */
export function jsonTokens(bytes, text = asText(bytes)) {
  return text !== null && /^\s*[[{]/.test(text) && bytes.length <= MAX_SHOWN ? tokensOf(text) : null;
}

/** Return the bytes as text or in hex. */
export function read(bytes, way) {
  const shown = bytes.subarray(0, MAX_SHOWN);
  const rest = bytes.length - shown.length;
  const more = rest > 0 ? `\n… and ${rest} bytes more` : "";
  if (way === "text") return (asText(shown) ?? asTextCut(bytes)) + more;
  return dump(shown) + more;
}

/** Return lines such as `00000010  6b 65 79 ...  |key...|`, the format of hexdump. */
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

/** A cut may split a character. */
function asTextCut(bytes) {
  return new TextDecoder("utf-8").decode(bytes.subarray(0, MAX_SHOWN), { stream: true });
}
