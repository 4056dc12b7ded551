// Requests to the node that served this page, and its errors as sentences.

import { report, reportCutOff } from "./connection.js";
import { ended, headersOf } from "./session.js";

// Longer than the node's own limit for an answer; for work that the user asked for.
const TIME_LIMIT_MS = 20_000;
// A part of a page asks again soon, so a node or partition that does not answer may not delay it for longer.
const LOOK_LIMIT_MS = 5_000;
const ANSWER_WAY_MS = 2_000; // the node itself ends the request, and its answer says which part is missing

/** The node refused the request; `code` is Kafka's or the REST API's. */
export class Refused extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** There is no answer: the node is down, or not reachable. */
export class NoAnswer extends Error {}

/** There was no answer in time; the node may answer other requests. */
export class RequestTimeout extends Error {}

/** Return a path whose values are quoted, so that each is one segment. */
export function path(strings, ...values) {
  return strings.reduce((whole, part, i) => whole + encodeURIComponent(values[i - 1]) + part);
}

export function query(values) {
  const given = Object.entries(values).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return given.length ? "?" + new URLSearchParams(given) : "";
}

/** Send a GET; its time limit is `LOOK_LIMIT_MS`, unless `where` has another. */
export function get(where, signal) {
  const place = new URL(where, location.origin);
  if (!/^\/v[13]\//.test(place.pathname)) return send("GET", where, undefined, signal, LOOK_LIMIT_MS);
  if (!place.searchParams.has("timeout_ms")) place.searchParams.set("timeout_ms", LOOK_LIMIT_MS);
  const limit = Number(place.searchParams.get("timeout_ms")) + ANSWER_WAY_MS;
  return send("GET", place.pathname + place.search, undefined, signal, limit);
}
export const post = (where, body) => send("POST", where, body);
export const put = (where, body) => send("PUT", where, body);
export const patch = (where, body) => send("PATCH", where, body);
export const remove = (where, body) => send("DELETE", where, body);

async function send(method, where, body, signal, limit = TIME_LIMIT_MS) {
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
        ? AbortSignal.any([signal, AbortSignal.timeout(limit)])
        : AbortSignal.timeout(limit),
    },
    signal,
  );
  const content = await answer.text().catch((error) => {
    throw failure(error, signal);
  });
  if (!answer.ok) throw refusal(answer.status, content);
  return content ? JSON.parse(content) : null;
}

/** Return the response to a request, whatever its status; throws NoAnswer if there is none. */
export async function reach(where, options, signal) {
  try {
    const answer = await fetch(where, {
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      ...options,
      headers: { ...options.headers, ...headersOf(options.method ?? "GET") },
    });
    report(true);
    if (answer.status === 401) ended();
    reportCutOff(answer.headers.get("Ottla-Cut-Off-Since"));
    return answer;
  } catch (error) {
    throw failure(error, signal);
  }
}

/** Return the error for a request without an answer. Only an unreachable node is shown for the whole page. */
function failure(error, signal) {
  if (signal?.aborted) return error; // the user left the page
  if (error.name === "TimeoutError") return new RequestTimeout("The node took too long to answer this request.");
  report(false);
  return new NoAnswer("The node does not answer.");
}

export function refusal(status, content) {
  try {
    const reply = JSON.parse(content);
    if (typeof reply.message === "string") return new Refused(reply.message, status, reply.error_code);
  } catch {
    // The body is not JSON: show the status.
  }
  return new Refused(`The node rejected the request with HTTP status ${status}.`, status, status);
}
