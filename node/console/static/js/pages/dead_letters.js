// The dead letters of a share group, newest first, with a button to redeliver each.

import { deadLetter, deadLetters } from "../ask/dead_letters.js";
import { searchBack } from "../ask/records.js";
import { h } from "../dom.js";
import { field, form, input, whole } from "../form.js";
import { UNKNOWN, count, many, time } from "../format.js";
import { groupHead } from "../group_head.js";
import { groupHref, topicHref } from "../hrefs.js";
import { askDelivery, keyOf } from "../letter_delivery.js";
import { morph } from "../morph.js";
import { badge, button, facts, link, note, say } from "../parts.js";
import { openRecord } from "../record_dialog.js";
import { placeOf, short } from "../record_table.js";
import { newestOf, searchedWords, unreadWords } from "../record_selection.js";
import { table } from "../table.js";

const PAGE = 10_000; // letters in one window of a search
const MAX_FOUND = 10_000;
const RECORD = { letter: "in the letter", origin: "read from its origin: the letter has no copy", gone: "gone" };

export function deadLettersPage(view, { group }) {
  const found = h("div", { class: "live" });
  const state = {};
  const again = new Map(); // letter -> the new place of its record, by the letter's place
  const failed = new Set(); // the places of letters whose redelivery failed
  let searching = null;
  let shown = () => {};

  const made = form(
    { label: "Which letters", action: "Read", act: (values) => search(selectionOf(values)) },
    field(
      "Filter",
      input("filter", { type: "search", placeholder: "text in key or value" }),
      "Or a field of a JSON value, such as $.user.id=42. Leave empty for all letters.",
    ),
    field("Maximum letters", input("count", { value: "50", inputmode: "numeric" }), "1 to 10,000. Default: 50."),
    field(
      "Another topic",
      input("topic"),
      "A topic with letters of this group from before its settings were changed. Leave empty for the topic in its settings.",
    ),
  );

  /** Search from the newest letter back, as for records. */
  async function search(selection, { all = [], places = null, goal = selection.newest } = {}) {
    searching?.abort();
    const controller = new AbortController();
    searching = controller;
    const signal = AbortSignal.any([controller.signal, view.signal]);
    const known = { all, places, unread: [], topic: null, copies: false };
    const oldest = () => known.all[goal - 1]?.timestamp ?? null;
    const isWhole = () => (known.places ?? [null]).every((one) => one?.isStart);
    const words = () =>
      `${many(known.all.length, "dead letter")}, the newest first; ${searchedWords(known.places ?? [])}${unreadWords(known.unread)}.`;
    const read = async (request, end) => {
      const page = await deadLetters(group, request, end);
      Object.assign(known, { topic: page.topic, copies: page.copies });
      return page;
    };
    const on = () => search(selection, { ...known, goal: known.all.length + selection.newest });
    try {
      await searchBack(
        read,
        { filter: selection.filter, topic: selection.topic, count: PAGE, from: places, goal: oldest() },
        ({ records, ...reply }) => {
          Object.assign(known, reply, { all: newestOf([...known.all, ...records], MAX_FOUND) });
          draw(known, `Searching. ${words()}`, button("Stop", () => controller.abort()));
          return oldest();
        },
        signal,
      );
    } catch (problem) {
      if (view.signal.aborted) return;
      if (!controller.signal.aborted) throw problem;
    }
    if (searching === controller) draw(known, words(), isWhole() ? null : button("Continue searching", on));
  }

  function draw(known, words, more) {
    shown = () => draw(known, words, more);
    const waiting = known.all.filter((one) => !again.has(keyOf(one)));
    morph(found, [
      facts([
        ["Dead-letter topic", known.topic === null ? "none" : link(topicHref(known.topic, "records"), known.topic)],
        known.topic !== null && ["Letters contain the record", known.copies ? "yes" : "no, only its origin"],
      ]),
      known.topic === null ? noDeadLetterTopic(group) : h("p", { class: "hint", role: "status" }, words),
      known.topic !== null && letterTable(known),
      h(
        "div",
        { class: "actions" },
        more,
        waiting.length > 1 &&
          button(`Deliver these ${count(waiting.length)} again…`, () => deliver(known.topic, waiting)),
      ),
    ]);
  }

  function letterTable({ topic, all }) {
    return table({
      caption: `Dead letters of ${group}`,
      rows: all,
      key: keyOf,
      empty: "No dead letters found.",
      state,
      again: () => shown(),
      columns: [
        { title: "Origin", head: true, cell: originOf },
        { title: "Time", cell: (one) => h("time", {}, time(one.timestamp)) },
        { title: "Reason", cell: (one) => one.reason ?? UNKNOWN },
        { title: "Deliveries", number: true, cell: (one) => count(one.deliveries) },
        { title: "Key", cell: (one) => (one.hasCopy ? short(one.key) : UNKNOWN) },
        {
          title: "Value",
          cell: (one) => (one.hasCopy ? short(one.value) : h("span", { class: "hint" }, "not in the letter")),
        },
        { title: "Letter", cell: (one) => actionsOf(topic, one) },
      ],
    });
  }

  function actionsOf(topic, one) {
    const name = `letter at ${placeOf(one)}`;
    const done = again.get(keyOf(one));
    return h(
      "span",
      { class: "actions" },
      button("Show", () => show(topic, one), { "aria-label": `Show ${name}` }),
      button("Deliver again…", () => deliver(topic, [one]), { "aria-label": `Deliver ${name} again` }),
      done ? badge("good", done) : failed.has(keyOf(one)) && badge("bad", "not delivered"),
    );
  }

  async function show(topic, one) {
    try {
      const letter = one.hasCopy ? { ...one, content: "letter", problem: null } : await deadLetter(group, topic, one);
      const known = [
        ["Origin", originOf(one)],
        ["Reason", one.reason ?? UNKNOWN],
        ["Deliveries", count(one.deliveries)],
        ["Record", RECORD[letter.content]],
      ];
      openRecord(`Dead letter at ${placeOf(one)}`, letter, { known, problem: letter.problem });
    } catch (problem) {
      say(problem.message);
    }
  }

  async function deliver(topic, letters) {
    await askDelivery(group, topic, letters, { again, failed });
    shown();
  }

  view.signal.addEventListener("abort", () => searching?.abort());
  view.show(`Dead letters of ${group}`, groupHead(view, group, "dead-letters"), made, found);
  made.requestSubmit();
}

function originOf({ origin }) {
  return [
    link(topicHref(origin.topic, "records"), origin.topic),
    " ",
    h("span", { class: "place" }, `partition ${origin.partition},`),
    " ",
    h("span", { class: "place" }, `offset ${count(origin.offset)}`),
  ];
}

function noDeadLetterTopic(group) {
  return note(
    "",
    "This group has no dead-letter topic: records that are rejected, or delivered too often, leave no dead letter. Set errors.deadletterqueue.topic.name in its ",
    link(groupHref(group, "configs"), "configs"),
    ".",
  );
}

function selectionOf({ filter, count: wanted, topic }) {
  const newest = whole(wanted, "Maximum letters", { least: 1 });
  if (newest > MAX_FOUND) throw new Error(`Maximum letters must be at most ${MAX_FOUND}.`);
  return { filter, newest, topic: topic.trim() };
}
