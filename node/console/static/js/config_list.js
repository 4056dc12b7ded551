// Settings with what they mean: search, change, take back. For topics and brokers alike.

import { ask, open } from "./dialog.js";
import { h } from "./dom.js";
import { field, form, input } from "./form.js";
import { count, many } from "./format.js";
import { badge, button, code, say } from "./parts.js";
import { table } from "./table.js";

/** `load(signal)` gives {name, value, isDefault, isReadOnly, isSensitive, source, documentation}. */
export function configList(view, { owner, load, alter, reset }) {
  const state = { search: "", changed: false };
  const edit = (one) => openEditor(owner, one, alter, list.refresh);
  const takeBack = (one) =>
    ask({
      title: `Reset ${one.name}?`,
      what: `${owner} gives up its own value, ${one.value ?? "a hidden one"}, and follows the default at once.`,
      action: "Reset it",
      act: () => reset(one.name),
    }).then((isDone) => {
      if (isDone) say(`${one.name} follows the default.`);
      list.refresh();
    });
  const list = view.live({
    every: 15_000,
    ask: load,
    draw: (all) => draw(all, state, list, { owner, edit, takeBack, canAlter: Boolean(alter) }),
  });
  const search = input("search", {
    type: "search",
    placeholder: "part of a name or of its text",
    oninput: () => {
      state.search = search.value;
      list.draw();
    },
  });
  const changed = h("input", {
    type: "checkbox",
    onchange: () => {
      state.changed = changed.checked;
      list.draw();
    },
  });
  return [
    h(
      "div",
      { class: "tools" },
      field("Search", search),
      h("label", { class: "check" }, changed, "only what was set"),
    ),
    list,
  ];
}

function draw(all, state, list, { owner, edit, takeBack, canAlter }) {
  const wanted = state.search.toLowerCase();
  const shown = all.filter(
    (one) =>
      (!state.changed || !one.isDefault) &&
      `${one.name} ${one.documentation ?? ""}`.toLowerCase().includes(wanted),
  );
  return [
    h(
      "p",
      { class: "hint", role: "status" },
      shown.length === all.length
        ? many(all.length, "setting")
        : `${count(shown.length)} of ${many(all.length, "setting")}`,
    ),
    table({
      caption: `Settings of ${owner}`,
      rows: shown,
      key: (one) => one.name,
      state,
      again: list.draw,
      empty: "No setting is like that.",
      columns: [
        {
          title: "Setting",
          head: true,
          cell: (one) => [code(one.name), one.documentation && h("p", { class: "doc" }, one.documentation)],
        },
        {
          title: "Value",
          cell: (one) =>
            one.isSensitive
              ? h("em", {}, "hidden")
              : one.value === null
                ? h("em", {}, "none")
                : one.value === ""
                  ? h("em", {}, "empty")
                  : code(one.value),
        },
        { title: "Comes from", cell: (one) => (one.isDefault ? "default" : badge("plain", one.source)) },
        {
          title: "Change",
          cell: (one) =>
            canAlter && !one.isReadOnly
              ? h(
                  "span",
                  { class: "actions" },
                  button("Change…", () => edit(one), { "aria-label": `Change ${one.name}` }),
                  one.isOwn && button("Reset…", () => takeBack(one), { "aria-label": `Reset ${one.name}` }),
                )
              : h("span", { class: "hint" }, "read-only"),
        },
      ],
    }),
  ];
}

function openEditor(owner, one, alter, refresh) {
  const act = async ({ value }) => {
    await alter(one.name, value);
    close();
    say(`${one.name} of ${owner} is ${one.isSensitive ? "set" : value}.`);
    refresh();
  };
  const close = open(
    `Change ${one.name}`,
    null,
    one.documentation && h("p", { class: "doc" }, one.documentation),
    form(
      { label: `Change ${one.name}`, action: "Set it", act, others: [button("Cancel", () => close())] },
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
