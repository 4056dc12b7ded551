// Requests to the node that served this page, and its errors as sentences.

import { report, reportCutOff } from "./connection.js";

const TIME_LIMIT_MS = 20_000; // longer than the node gives itself for an answer

/** The node answered that it does not do this; `code` is Kafka's or the REST API's. */
export class Refused extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** No answer came: the node is down, or the way to it. */
export class NoAnswer extends Error {}

/** Path segments out of any text; each is one segment whatever it holds. */
export function path(strings, ...values) {
  return strings.reduce((whole, part, i) => whole + encodeURIComponent(values[i - 1]) + part);
}

export function query(values) {
  const given = Object.entries(values).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return given.length ? "?" + new URLSearchParams(given) : "";
}

export const get = (where, signal) => send("GET", where, undefined, signal);
export const post = (where, body) => send("POST", where, body);
export const put = (where, body) => send("PUT", where, body);
export const patch = (where, body) => send("PATCH", where, body);
export const remove = (where, body) => send("DELETE", where, body);

async function send(method, where, body, signal) {
  const answer = await reach(
    where,
    {
      method,
      headers:
        body === undefined
          ? { Accept: "application/json" }
          : { Accept: "application/json", "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal
        ? AbortSignal.any([signal, AbortSignal.timeout(TIME_LIMIT_MS)])
        : AbortSignal.timeout(TIME_LIMIT_MS),
    },
    signal,
  );
  const content = await answer.text();
  if (!answer.ok) throw refusal(answer.status, content);
  return content ? JSON.parse(content) : null;
}

/** The response to a request, whatever its status; NoAnswer where none comes. */
export async function reach(where, options, signal) {
  try {
    const answer = await fetch(where, {
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      ...options,
    });
    report(true);
    reportCutOff(answer.headers.get("Ottla-Cut-Off-Since"));
    return answer;
  } catch (error) {
    if (signal?.aborted) throw error; // the page was left
    report(false);
    throw new NoAnswer(
      error.name === "TimeoutError" ? "The node took too long to answer." : "The node does not answer.",
    );
  }
}

export function refusal(status, content) {
  try {
    const told = JSON.parse(content);
    if (typeof told.message === "string") return new Refused(told.message, status, told.error_code);
  } catch {
    // No JSON: the status has to do.
  }
  return new Refused(`The node refused (HTTP ${status}).`, status, status);
}
