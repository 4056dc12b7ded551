// Dialogs: a confirmation before irreversible actions, and forms in a window of their own.

import { h } from "./dom.js";

/**
 * Ask for confirmation; `effect` says what will happen, `act` does it and may throw. Cancel has the focus, so that a
 * stray Enter does nothing. Resolves to true if it was done.
 */
export function ask({ title, effect, action, act }) {
  return new Promise((resolve) => {
    const problem = h("p", { class: "problem", role: "alert" });
    let isDone = false;
    const go = h(
      "button",
      {
        type: "button",
        class: "danger",
        onclick: async () => {
          problem.textContent = "";
          go.disabled = true;
          try {
            await act();
            isDone = true;
            close();
          } catch (error) {
            problem.append(h("span", {}, error.message));
            go.disabled = false;
          }
        },
      },
      action,
    );
    const close = open(
      title,
      () => resolve(isDone),
      [effect].flat().map((line) => h("p", {}, line)),
      problem,
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", autofocus: true, onclick: () => close() }, "Cancel"),
        go,
      ),
    );
  });
}

/** Show content in a dialog with a close button; returns a function that closes it. */
export function open(title, onclose, ...children) {
  const before = document.activeElement;
  const id = "dialog-title";
  const dialog = h(
    "dialog",
    {
      "aria-labelledby": id,
      onclose: () => {
        dialog.remove();
        if (before?.isConnected) before.focus();
        onclose?.();
      },
    },
    h("h2", { id }, title),
    children,
  );
  document.body.append(dialog);
  // Leaving a page closes its dialogs.
  addEventListener("hashchange", () => dialog.close(), { once: true });
  dialog.showModal();
  return () => dialog.close();
}
