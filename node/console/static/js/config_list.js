// Settings with their documentation: search, change, reset. For topics, brokers and groups.

import { ask, open } from "./dialog.js";
import { h } from "./dom.js";
import { field, form, input } from "./form.js";
import { badge, button, code, dotted, say } from "./parts.js";
import { searchedList } from "./searched_list.js";

// Subjects of settings; the first match counts.
const SUBJECTS = [
  ["Ottla's own", /^ottla\./],
  ["Security", /^(ssl|sasl|authorizer|security|super|principal|allow\.everyone|delegation|password|connection\.failed)\b/],
  ["Groups", /^(group|offsets|share|consumer|streams|errors)\b/],
  ["Transactions and producers", /^(transaction|producer|replica\.selector)/],
  ["Replication", /replica|isr\b|leader|unclean|insync/],
  ["Retention and compaction", /(^|\.)(retention|cleanup|cleaner|compaction|dirty|delete)\b/],
  ["Segments, indexes and flushes", /(^|\.)(segment|index|flush|roll|preallocate|file)\b/],
  ["Records", /(^|\.)(message|compression|record)\b/],
  ["Quorum and brokers", /^(controller|broker|node|process|metadata|initial)\b/],
  ["Network and quotas", /^(listener|advertised|socket|connection|max\.connection|num\.network|request|queued|quota|inter\.broker|client)/],
  ["Others", /./],
];

/** Order settings: changed ones first, the others by subject. */
function bySubject(rows) {
  if (rows.length === 0) return [[null, rows]];
  const [own, ...others] = SUBJECTS; // Kafka's come before Ottla's own
  const found = new Map(["Changed", ...others.map(([subject]) => subject), own[0]].map((subject) => [subject, []]));
  for (const one of rows) {
    const subject = one.isDefault ? SUBJECTS.find(([, pattern]) => pattern.test(one.name))[0] : "Changed";
    found.get(subject).push(one);
  }
  return [...found].filter(([, some]) => some.length > 0);
}

/** `load(signal)` returns {name, value, isDefault, isReadOnly, isSensitive, source, documentation}. */
export function configList(view, { owner, load, alter, reset }) {
  const askToReset = async (one, refresh) => {
    const isDone = await ask({
      title: `Reset ${one.name}?`,
      effect: `The value set for ${owner}, ${one.value ?? "which is hidden"}, is removed. The default takes effect at once.`,
      action: "Reset",
      act: () => reset(one.name),
    });
    if (isDone) say(`${one.name} of ${owner} is reset to its default.`);
    refresh();
  };
  const change = (one, { refresh }) =>
    one.isReadOnly
      ? h("span", { class: "hint" }, "read-only")
      : h(
          "span",
          { class: "actions" },
          button("Change…", () => openEditor(owner, one, alter, refresh), {
            "aria-label": `Change ${one.name}`,
          }),
          one.isOwn &&
            button("Reset…", () => askToReset(one, refresh), { "aria-label": `Reset ${one.name}` }),
        );
  const { tools, list } = searchedList(view, {
    every: 15_000,
    ask: load,
    counts: (one, onlySet) => !onlySet || !one.isDefault,
    words: (one) => `${one.name} ${one.documentation ?? ""}`,
    noun: "setting",
    parts: bySubject,
    placeholder: "part of a name or description",
    box: "only changed settings",
    caption: `Settings of ${owner}`,
    key: (one) => one.name,
    none: "No setting was changed: all have their defaults.",
    notFound: "No setting matches.",
    columns: (list) => [
      {
        title: "Setting",
        head: true,
        cell: (one) => [dotted(one.name), one.documentation && h("p", { class: "doc" }, one.documentation)],
      },
      { title: "Value", cell: value },
      { title: "Source", cell: (one) => (one.isDefault ? "default" : badge("plain", one.source)) },
      { title: "Change", cell: (one) => change(one, list) },
    ],
  });
  return [tools, list];
}

function value(one) {
  if (one.isSensitive) return h("em", {}, "hidden");
  if (one.value === null) return h("em", {}, "none");
  return one.value === "" ? h("em", {}, "empty") : code(one.value);
}

function openEditor(owner, one, alter, refresh) {
  const act = async ({ value }) => {
    await alter(one.name, value);
    close();
    say(`${one.name} of ${owner} is set${one.isSensitive ? "" : ` to ${value}`}.`);
    refresh();
  };
  const close = open(
    `Change ${one.name}`,
    null,
    one.documentation && h("p", { class: "doc" }, one.documentation),
    form(
      { label: `Change ${one.name}`, action: "Set", act, others: [button("Cancel", () => close())] },
      field(
        `Value for ${owner}`,
        input("value", {
          value: one.isSensitive ? "" : (one.value ?? ""),
          type: one.isSensitive ? "password" : "text",
          autofocus: true,
        }),
      ),
    ),
  );
}
