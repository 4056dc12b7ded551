// The records of a topic: from any offset, filtered, and live. The address has the choice, so that a link shows the
// same: `from`, `place`, `at` (ms), `cursor`, `partition`, `filter`, `count`, and `show`, the record that is open.

import { addressed, keepInAddress } from "../address.js";
import { records, recordsToTheEnd, searchBack } from "../ask/records.js";
import { partitions } from "../ask/topics.js";
import { h } from "../dom.js";
import { count, many } from "../format.js";
import { followRecords } from "../live_tail.js";
import { morph } from "../morph.js";
import { button, note } from "../parts.js";
import { recordChoice } from "../record_choice.js";
import { recordTable } from "../record_table.js";
import { recordViewer } from "../record_viewer.js";
import { newestOf, pageOf, searchedWords, selectionOf, unreadWords } from "../record_selection.js";
import { topicHead } from "../topic_head.js";

const MAX_KEPT = 500; // of a live tail; older records leave the page
const MAX_FOUND = 10_000; // of a search

export function recordsPage(view, { topic }) {
  const found = h("div", { class: "live" });
  const state = {};
  const given = addressed();
  let shown = []; // the records on the page
  let following = null;
  let searching = null;
  const { exports, show, showGiven } = recordViewer(topic, view, found, () => shown);

  const live = button("Live tail", () => (following ? stop() : start()), { "aria-pressed": "false" });
  const { made, partition } = recordChoice(given, live, (selection) => read(selection));

  const read = (selection) => (selection.isSearch ? search(selection) : readPage(selection));

  /**
   * Search from the newest record back, until there are enough and no partition can have a newer one, the oldest record
   * is reached, or the user stops the search.
   */
  async function search(selection, { all = [], places = null, goal = selection.newest } = {}) {
    stop();
    state.all = false;
    const controller = new AbortController();
    searching = controller;
    const signal = AbortSignal.any([controller.signal, view.signal]);
    const known = { all, places, unread: [] };
    const oldest = () => known.all[goal - 1]?.timestamp ?? null;
    const isWhole = () => (known.places ?? [null]).every((one) => one?.isStart);
    const words = () => {
      const { all: found, unread } = known;
      const without = unreadWords(unread);
      return `${many(found.length, "record")}, the newest first; ${searchedWords(known.places ?? [])}${without}.`;
    };
    const on = () => search(selection, { ...known, goal: known.all.length + selection.newest });
    draw(all, `Searching. ${words()}`, button("Stop", () => controller.abort()));
    try {
      await searchBack(
        (request, end) => records(topic, request, end),
        { ...selection.request, from: places, goal: oldest() },
        ({ records: found, ...reply }) => {
          Object.assign(known, reply, { all: newestOf([...known.all, ...found], MAX_FOUND) });
          draw(known.all, `Searching. ${words()}`, button("Stop", () => controller.abort()));
          return oldest();
        },
        signal,
      );
    } catch (problem) {
      if (!controller.signal.aborted || view.signal.aborted) throw problem;
    }
    if (searching === controller) draw(known.all, words(), isWhole() ? null : button("Continue searching", on));
  }

  async function readPage(selection) {
    stop();
    state.all = false;
    const page = pageOf(
      selection,
      selection.newest === null
        ? await records(topic, selection.request, view.signal)
        : await recordsToTheEnd(topic, selection.request, (all) => newestOf(all, selection.newest), view.signal),
    );
    const more = page.cursor && button("Read more", () => readMore(selection, page.cursor));
    draw(
      page.records,
      `${many(page.records.length, "record")}${page.words}`,
      more,
    );
  }

  /** Read on after a page, and set the address accordingly. */
  function readMore(selection, cursor) {
    keepInAddress({ cursor, show: "" });
    return readPage({ ...selection, newest: null, request: { ...selection.request, offset: cursor, timestamp: null } });
  }

  function start() {
    const { partition: one, filter } = selectionOf(Object.fromEntries(new FormData(made))).request;
    const kept = [];
    let skipped = 0;
    const controller = new AbortController();
    let isDue = false;
    const drawKept = () =>
      draw(
        kept,
        `Live, newest first: ${many(kept.length, "record")} so far.` +
          (skipped ? ` ${count(skipped)} were deleted before they were read.` : ""),
      );
    // Once per animation frame for all records since the last: thousands arrive per second.
    const drawSoon = () => {
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        if (!controller.signal.aborted) drawKept();
      });
    };
    following = controller;
    live.setAttribute("aria-pressed", "true");
    live.textContent = "Stop";
    drawKept();
    followRecords(topic, { partition: one, filter, last: null }, controller.signal, {
      got: (record) => {
        kept.unshift(record);
        kept.length = Math.min(kept.length, MAX_KEPT);
        drawSoon();
      },
      missed: (places) => {
        skipped += places.reduce((sum, gap) => sum + gap.to_offset - gap.from_offset, 0);
        drawSoon();
      },
      failed: (problem) => {
        stop();
        found.prepend(note("bad", problem.message));
      },
    });
  }

  function stop() {
    const ended = searching;
    searching = null;
    ended?.abort();
    following?.abort();
    following = null;
    live.setAttribute("aria-pressed", "false");
    live.textContent = "Live tail";
  }

  function draw(all, words, more) {
    const again = () => draw(all, words, more);
    shown = all;
    view.answered(found);
    morph(found, [
      h("div", { class: "head" }, h("p", { class: "hint", role: "status" }, words), all.length > 0 && exports()),
      recordTable(topic, all, state, again, show),
      more && h("p", {}, more),
    ]);
  }

  /** Read the records of the address, and open the record in it. */
  async function readGiven() {
    try {
      const selection = selectionOf(Object.fromEntries(new FormData(made)));
      await (given.cursor ? readMore(selection, given.cursor) : read(selection));
      if (given.show) await showGiven(given.show);
    } catch (problem) {
      if (!view.signal.aborted) found.replaceChildren(note("bad", problem.message));
    }
  }

  view.signal.addEventListener("abort", stop);
  view.show(`Records of ${topic}`, topicHead(view, topic, "records"), made, found);
  partitions(topic, view.signal).then(
    (all) =>
      partition.append(
        ...all
          .filter((one) => String(one.partition) !== given.partition)
          .map((one) => h("option", { value: one.partition }, one.partition)),
      ),
    () => {}, // without the list of partitions, all of them can be read
  );
  readGiven();
}
