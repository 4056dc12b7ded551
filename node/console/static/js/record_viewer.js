// One record of a page in a dialog, with links to its neighbours, and the records of a page as files.

import { addressed, keepInAddress } from "./address.js";
import { records } from "./ask/records.js";
import { copy, download } from "./copy.js";
import { h } from "./dom.js";
import { recordHref } from "./hrefs.js";
import { button, say } from "./parts.js";
import { openRecord } from "./record_dialog.js";
import { recordAsJson, recordsAsCsv, recordsAsJson } from "./record_export.js";
import { keyOf, placeOf } from "./record_table.js";

/** The actions on records of a topic: `listed` returns the records, `found` is the element that shows them. */
export function recordViewer(topic, view, found, listed) {
  function exports() {
    const save = (ending, type, written) => () => download(`${topic}.${ending}`, type, written(topic, listed()));
    return h(
      "div",
      { class: "choices", role: "group", "aria-label": "These records as a file" },
      button("Save as JSON", save("json", "application/json", recordsAsJson)),
      button("Save as CSV", save("csv", "text/csv", recordsAsCsv)),
    );
  }

  /** Open a record, with links to its neighbours on the page. */
  function show(one) {
    keepInAddress({ show: keyOf(one) });
    const shown = listed();
    const at = shown.findIndex((other) => keyOf(other) === keyOf(one));
    const beside = (step, word) => {
      const other = at < 0 ? undefined : shown[at + step];
      const go = () => {
        close();
        show(other);
      };
      return button(word, go, { disabled: other === undefined });
    };
    const close = openRecord(`Record at ${placeOf(one)}`, one, {
      onclose: () => {
        if (addressed().show !== keyOf(one)) return; // the neighbour is open now
        keepInAddress({ show: "" });
        found.querySelector(`tr[data-key="${keyOf(one)}"] a`)?.focus();
      },
      actions: [
        beside(-1, "Previous"),
        beside(1, "Next"),
        button("Copy link", () => copy(new URL(recordHref(topic, one), location.href).href, "The link")),
        button("Copy as JSON", () => copy(recordAsJson(topic, one), "The record")),
      ],
    });
  }

  /** Open the record of the address, on the page or not. */
  async function showGiven(key) {
    const [, number, offset] = /^(\d{1,9}):(\d{1,18})$/.exec(key) ?? [];
    if (number === undefined) return;
    const isWanted = (one) => keyOf(one) === `${Number(number)}:${Number(offset)}`;
    const request = { partition: Number(number), offset: Number(offset), count: 1 };
    const one = listed().find(isWanted) ?? (await records(topic, request, view.signal)).records.find(isWanted);
    if (one) show(one);
    else say(`There is no record at offset ${offset} of partition ${number} any more.`);
  }

  return { exports, show, showGiven };
}
