// Server-sent events over fetch: unlike EventSource, it can read the body of an error, and stops on request.

import { NoAnswer, reach, refusal } from "./api.js";

/**
 * Call `got(event, data, id)` for each event (a missing part is null), until the signal or the end of the stream.
 * Resumes after the event with the id `last`, unless that is null.
 */
export async function follow(where, last, got, signal) {
  const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
  const answer = await reach(where, { headers, signal }, signal);
  if (!answer.ok) throw refusal(answer.status, await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await next(reader, signal);
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) dispatch(block, got);
  }
}

async function next(reader, signal) {
  try {
    return await reader.read();
  } catch (error) {
    if (signal.aborted) return { done: true };
    throw new NoAnswer("The stream ended: the node does not answer.");
  }
}

function dispatch(block, got) {
  const fields = { event: "message", data: null, id: null };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const name = line.slice(0, at);
    if (at > 0 && name in fields) fields[name] = line.slice(at + 1).replace(/^ /, "");
  }
  got(fields.event, fields.data, fields.id);
}
