// Records as files: JSON that keeps every byte and digit, and CSV for spreadsheets.

import { tokensOf } from "./json_tokens.js";
import { asText, toBase64 } from "./record_bytes.js";

// A spreadsheet evaluates fields that start like this, and any producer may write them; numbers are harmless.
const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?\d+(\.\d+)?$/;
const COLUMNS = ["topic", "partition", "offset", "timestamp", "key_type", "key", "value_type", "value", "headers"];

/** Return a record as a JSON document; a JSON value is copied as it was written. */
export function recordAsJson(topic, one) {
  const headers = one.headers.map(
    ({ name, value }) => `{"name": ${JSON.stringify(name)}, ${member("value", encoded(value))}}`,
  );
  return `{${[
    `"topic": ${JSON.stringify(topic)}`,
    `"partition": ${one.partition}`,
    `"offset": ${one.offset}`,
    `"timestamp_ms": ${one.timestamp}`,
    `"timestamp": ${JSON.stringify(isoTime(one.timestamp))}`,
    member("key", encoded(one.key)),
    member("value", encoded(one.value)),
    `"headers": [${headers.join(", ")}]`,
  ].join(", ")}}`;
}

export function recordsAsJson(topic, records) {
  return `[\n${records.map((one) => recordAsJson(topic, one)).join(",\n")}\n]\n`;
}

/** RFC 4180; a quote is put before text that a spreadsheet would evaluate. */
export function recordsAsCsv(topic, records) {
  const rows = records.map((one) => {
    const [key, value] = [encoded(one.key), encoded(one.value)];
    const headers = one.headers.map((header) => ({ name: header.name, value: encoded(header.value).text }));
    return [
      topic,
      one.partition,
      one.offset,
      isoTime(one.timestamp) ?? one.timestamp,
      key.type,
      key.text ?? "",
      value.type,
      value.text ?? "",
      headers.length ? JSON.stringify(headers) : "",
    ];
  });
  return [COLUMNS, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

function cell(value) {
  const text = String(value);
  const escaped = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(escaped) ? `"${escaped.replaceAll('"', '""')}"` : escaped;
}

/** Return {type, text}: `json`, `text`, `base64` or `null`. */
function encoded(bytes) {
  if (bytes === null) return { type: "null", text: null };
  const text = asText(bytes);
  if (text === null) return { type: "base64", text: toBase64(bytes) };
  return { type: /^\s*[[{]/.test(text) && tokensOf(text) !== null ? "json" : "text", text };
}

function member(name, { type, text }) {
  return `"${name}_type": "${type}", "${name}": ${type === "json" ? text.trim() : JSON.stringify(text)}`;
}

/** Return RFC 3339 in UTC; null for no time, and for one outside the calendar. */
function isoTime(ms) {
  const date = new Date(Number(ms));
  return ms < 0 || Number.isNaN(date.getTime()) ? null : date.toISOString();
}
