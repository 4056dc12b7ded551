// Users who can log in with a password: their list, adding them, changing passwords.

import { deleteUser, setPassword, users } from "../ask/access.js";
import { accessHead } from "../access_head.js";
import { ask, open } from "../dialog.js";
import { h } from "../dom.js";
import { choice, field, form, input } from "../form.js";
import { button, say } from "../parts.js";
import { searchedList } from "../searched_list.js";

const MECHANISMS = [
  ["SCRAM-SHA-512", "SCRAM-SHA-512"],
  ["SCRAM-SHA-256", "SCRAM-SHA-256"],
];

export function usersPage(view) {
  const { tools, list } = searchedList(view, {
    ask: users,
    words: (one) => one.name,
    noun: "user",
    placeholder: "part of a name",
    caption: "Users",
    key: (one) => one.name,
    none: "There are no users yet.",
    notFound: "No user name contains this text.",
    columns: (shown) => [
      { title: "Name", head: true, cell: (one) => one.name },
      {
        title: "Mechanisms",
        cell: (one) => one.mechanisms.map((each) => `${each.mechanism} (${each.iterations} iterations)`).join(", "),
      },
      {
        title: "Change",
        cell: (one) => [
          button("Set password…", () => openPassword(one.name, shown.refresh), {
            "aria-label": `Set the password of ${one.name}`,
          }),
          " ",
          button("Delete…", () => askToDelete(one.name, shown.refresh), { "aria-label": `Delete ${one.name}` }),
        ],
      },
    ],
  });
  view.show(
    "Users",
    accessHead("#/access"),
    h("p", { class: "hint" }, "Users log in with a password (SASL/SCRAM, PLAIN, and this console). ACLs decide what they may do."),
    h("div", { class: "actions" }, button("Create a user…", () => openPassword(null, list.refresh), { class: "main" })),
    tools,
    list,
  );
}

function openPassword(name, refresh) {
  const made = form(
    {
      label: name === null ? "New user" : "New password",
      action: name === null ? "Create" : "Set the password",
      others: [button("Cancel", () => close())],
      act: async (values) => {
        const user = name ?? values.name.trim();
        if (!user) throw new Error("Name must not be empty.");
        if (values.password !== values.again) throw new Error("The two passwords differ.");
        await setPassword(user, values.password, values.mechanism);
        close();
        say(name === null ? `User ${user} is created.` : `The password of ${user} is set.`);
        refresh();
      },
    },
    name === null && field("Name", input("name", { autofocus: true, maxlength: 1000 })),
    field("Password", input("password", { type: "password", autocomplete: "new-password" })),
    field("Password again", input("again", { type: "password", autocomplete: "new-password" })),
    field("Mechanism", choice("mechanism", MECHANISMS, "SCRAM-SHA-512"), "The mechanism by which clients log in. Each has its own password."),
  );
  const close = open(name === null ? "Create a user" : `Set the password of ${name}`, null, made);
}

async function askToDelete(name, refresh) {
  const isDone = await ask({
    title: `Delete the user ${name}?`,
    effect: "The user can no longer log in. Connections that are open stay until they end. ACLs and quotas of the user stay.",
    action: "Delete the user",
    act: () => deleteUser(name),
  });
  if (isDone) say(`User ${name} is deleted.`);
  refresh();
}
