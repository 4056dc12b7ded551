// Texts that leave the page: to the clipboard, or as a file.

import { say } from "./parts.js";

/** Copy a text, and confirm it under its name. */
export async function copy(text, name) {
  say((await copied(text)) ? `${name} is copied.` : `${name} was not copied: the browser does not allow it.`);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedBySelection(text); // over plain http, only localhost may use the clipboard
  }
}

function copiedBySelection(text) {
  const before = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  // While a dialog is open, nothing behind it can be selected.
  ([...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  before?.focus();
  return isDone;
}

/** Have the browser save a file. */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser may still be reading it
}
