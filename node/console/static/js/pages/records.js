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
import { newestOf, pageOf, searchedWords, unreadWords, wishOf } from "../record_wish.js";
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
  const { made, partition } = recordChoice(given, live, (wish) => read(wish));

  const read = (wish) => (wish.isSearch ? search(wish) : readPage(wish));

  /**
   * Search from the newest record back, until there are enough and no partition can have a newer one, the oldest record
   * is reached, or the user stops the search.
   */
  async function search(wish, { all = [], places = null, goal = wish.newest } = {}) {
    stop();
    state.all = false;
    const mine = new AbortController();
    searching = mine;
    const signal = AbortSignal.any([mine.signal, view.signal]);
    const known = { all, places, unread: [] };
    const oldest = () => known.all[goal - 1]?.timestamp ?? null;
    const isWhole = () => (known.places ?? [null]).every((one) => one?.isStart);
    const words = () => {
      const { all: found, unread } = known;
      const without = unreadWords(unread);
      return `${many(found.length, "record")}, the newest first; ${searchedWords(known.places ?? [])}${without}.`;
    };
    const on = () => search(wish, { ...known, goal: known.all.length + wish.newest });
    draw(all, `Searching. ${words()}`, button("Stop", () => mine.abort()));
    try {
      await searchBack(
        (asked, end) => records(topic, asked, end),
        { ...wish.asked, from: places, goal: oldest() },
        ({ records: found, ...reply }) => {
          Object.assign(known, reply, { all: newestOf([...known.all, ...found], MAX_FOUND) });
          draw(known.all, `Searching. ${words()}`, button("Stop", () => mine.abort()));
          return oldest();
        },
        signal,
      );
    } catch (problem) {
      if (!mine.signal.aborted || view.signal.aborted) throw problem;
    }
    if (searching === mine) draw(known.all, words(), isWhole() ? null : button("Continue searching", on));
  }

  async function readPage(wish) {
    stop();
    state.all = false;
    const page = pageOf(
      wish,
      wish.newest === null
        ? await records(topic, wish.asked, view.signal)
        : await recordsToTheEnd(topic, wish.asked, (all) => newestOf(all, wish.newest), view.signal),
    );
    const more = page.cursor && button("Read more", () => readOn(wish, page.cursor));
    draw(
      page.records,
      `${many(page.records.length, "record")}${page.words}`,
      more,
    );
  }

  /** Read on after a page, and set the address accordingly. */
  function readOn(wish, cursor) {
    keepInAddress({ cursor, show: "" });
    return readPage({ ...wish, newest: null, asked: { ...wish.asked, offset: cursor, timestamp: null } });
  }

  function start() {
    const { partition: one, filter } = wishOf(Object.fromEntries(new FormData(made))).asked;
    const kept = [];
    let skipped = 0;
    const mine = new AbortController();
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
        if (!mine.signal.aborted) drawKept();
      });
    };
    following = mine;
    live.setAttribute("aria-pressed", "true");
    live.textContent = "Stop";
    drawKept();
    followRecords(topic, { partition: one, filter, last: null }, mine.signal, {
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
      const wish = wishOf(Object.fromEntries(new FormData(made)));
      await (given.cursor ? readOn(wish, given.cursor) : read(wish));
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
