// Quotas of users, client ids and addresses: their list, adding and removing them.

import { deleteQuotas, quotas, setQuotas } from "../ask/access.js";
import { accessHead } from "../access_head.js";
import { ask, open } from "../dialog.js";
import { h } from "../dom.js";
import { choice, decimal, field, form, input } from "../form.js";
import { bytes, digits } from "../format.js";
import { button, say } from "../parts.js";
import { searchedList } from "../searched_list.js";

const KINDS = [
  ["producer_byte_rate", "Bytes written per second", (value) => `${bytes(value)}/s written`],
  ["consumer_byte_rate", "Bytes read per second", (value) => `${bytes(value)}/s read`],
  ["request_percentage", "Percent of a request thread", (value) => `${digits(value)} % of a request thread`],
  ["controller_mutation_rate", "Partitions changed per second", (value) => `${digits(value)} partitions changed/s`],
  ["connection_creation_rate", "New connections per second", (value) => `${digits(value)} new connections/s`],
];
const WORDS = { user: "user", client_id: "client id", ip: "address" };

const nameOf = (entity) =>
  Object.keys(WORDS)
    .filter((kind) => kind in entity)
    .map((kind) => (entity[kind] === null ? `default ${WORDS[kind]}` : `${WORDS[kind]} ${entity[kind]}`))
    .join(", ");

export function quotasPage(view) {
  const { tools, list } = searchedList(view, {
    ask: quotas,
    words: (one) => nameOf(one.entity),
    noun: "entity",
    nouns: "entities",
    placeholder: "part of a name",
    caption: "Quotas",
    key: (one) => JSON.stringify(one.entity),
    none: "There are no quotas.",
    notFound: "No entity contains this text.",
    columns: (shown) => [
      { title: "Entity", head: true, cell: (one) => nameOf(one.entity) },
      {
        title: "Quotas",
        cell: (one) =>
          Object.entries(one.quotas)
            .map(([name, value]) => KINDS.find(([kind]) => kind === name)?.[2](value) ?? `${name} ${value}`)
            .join(", "),
      },
      {
        title: "Change",
        cell: (one) =>
          button("Remove…", () => askToRemove(one.entity, shown.refresh), {
            "aria-label": `Remove the quotas of ${nameOf(one.entity)}`,
          }),
      },
    ],
  });
  view.show(
    "Quotas",
    accessHead("#/access/quotas"),
    h("p", { class: "hint" }, "A quota slows down clients that ask for more than it allows. The most specific quota that fits a client applies."),
    h("div", { class: "actions" }, button("Set a quota…", () => openQuota(list.refresh), { class: "main" })),
    tools,
    list,
  );
}

function openQuota(refresh) {
  const made = form(
    {
      label: "New quota",
      action: "Set the quota",
      others: [button("Cancel", () => close())],
      act: async (values) => {
        const entity = {};
        for (const kind of Object.keys(WORDS)) {
          const name = values[kind].trim();
          if (name) entity[kind] = name === "*" ? null : name;
        }
        if (Object.keys(entity).length === 0) throw new Error("Name a user, a client id or an address.");
        await setQuotas(entity, { [values.quota]: decimal(values.value, "Value") });
        close();
        say(`The quota of ${nameOf(entity)} is set.`);
        refresh();
      },
    },
    field("User", input("user", { autofocus: true }), "* is every user that has no quota of its own."),
    field("Client id", input("client_id"), "May be combined with a user. * is every client id that has no quota of its own."),
    field("Address", input("ip"), "Of clients, for new connections per second. * is every address that has no quota of its own."),
    field("Quota", choice("quota", KINDS.map(([kind, word]) => [kind, word]), "producer_byte_rate")),
    field("Value", input("value", { inputmode: "decimal" })),
  );
  const close = open("Set a quota", null, made);
}

async function askToRemove(entity, refresh) {
  const isDone = await ask({
    title: `Remove the quotas of ${nameOf(entity)}?`,
    effect: "The next most specific quota for these clients applies, if there is one.",
    action: "Remove the quotas",
    act: () => deleteQuotas(entity),
  });
  if (isDone) say(`The quotas of ${nameOf(entity)} are removed.`);
  refresh();
}
