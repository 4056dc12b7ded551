// The form for a new topic.

import { open } from "./dialog.js";
import { h } from "./dom.js";
import { area, field, form, input, whole } from "./form.js";
import { topicHref } from "./hrefs.js";
import { button, say } from "./parts.js";

/** `create(name, partitions, replicas, configs, onlyCheck)` sends the request; `given` is the initial name. */
export function openTopicForm(create, refresh, given = "") {
  const run = (onlyCheck) => async (values) => {
    const name = values.name.trim();
    await create(
      name,
      whole(values.partitions, "Partitions", { least: 1, optional: true }),
      whole(values.replicas, "Replication factor", { least: 1, optional: true }),
      parseConfigs(values.configs),
      onlyCheck,
    );
    if (onlyCheck) {
      outcome.textContent = `Topic ${name} can be created with these values. Nothing was created yet.`;
      return;
    }
    close();
    say(`Topic ${name} is created.`);
    location.hash = topicHref(name);
    refresh();
  };
  const outcome = h("p", { class: "hint", role: "status" });
  const check = button("Validate only", async () => {
    const problem = made.querySelector(".problem");
    problem.textContent = "";
    outcome.textContent = "";
    try {
      await run(true)(Object.fromEntries(new FormData(made)));
    } catch (error) {
      problem.append(h("span", {}, error.message));
    }
  });
  const made = form(
    {
      label: "New topic",
      action: "Create",
      act: run(false),
      others: [check, button("Cancel", () => close())],
    },
    field(
      "Name",
      input("name", { autofocus: true, maxlength: 249, value: given }),
      "1 to 249 characters: letters, digits, dots, underscores and hyphens.",
    ),
    field(
      "Partitions",
      input("partitions", { inputmode: "numeric" }),
      "Leave empty for the cluster's default, num.partitions.",
    ),
    field(
      "Replication factor",
      input("replicas", { inputmode: "numeric" }),
      "Copies of each partition, at most one per broker. Leave empty for the cluster's default, default.replication.factor.",
    ),
    field(
      "Configs",
      area("configs", { rows: 3 }),
      "One name=value per line, such as retention.ms=86400000. Other settings keep their defaults.",
    ),
  );
  const close = open("Create a topic", null, made, outcome);
}

/** Return an object from name=value lines; an error names the line. */
export function parseConfigs(text) {
  const found = {};
  for (const line of text
    .split("\n")
    .map((one) => one.trim())
    .filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line}” is not a setting. Write name=value, such as retention.ms=86400000.`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}
