// Fields to choose topics, partitions and brokers from those that exist, so that no name is misspelt.

import { health } from "./ask/cluster.js";
import { partitions, topics } from "./ask/topics.js";
import { h } from "./dom.js";
import { choice } from "./form.js";
import { byName } from "./format.js";

const SHOWN = 6; // visible lines of a list with multiple choices

/** A select of topics; `first` is the text for no topic, which a list with multiple choices does not have. */
export function topicChoice(view, name, { first = "choose a topic", multiple = false, ...more } = {}) {
  const made = multiple
    ? choice(name, [], null, { multiple: true, size: SHOWN, ...more })
    : choice(name, [["", first]], "", more);
  topics("", 0, view.signal).then(
    (all) => offer(made, all.map((one) => one.topic)),
    () => offer(made, []), // the form will show the node's error
  );
  return made;
}

/** Offer topics by name, in addition to the current options. */
export function offer(select, names) {
  select.append(...[...names].sort(byName).map((one) => h("option", { value: one }, one)));
}

/** A select of partitions of the chosen topic; `first` is the text for no partition. */
export function partitionChoice(view, name, { first = "choose a partition", ...more } = {}) {
  const made = choice(name, [["", first]], "", more);
  made.of = async (topic) => {
    made.replaceChildren(h("option", { value: "" }, first));
    if (topic === "") return [];
    const all = await partitions(topic, view.signal);
    made.append(...all.map((one) => h("option", { value: one.partition }, one.partition)));
    return all;
  };
  return made;
}

/**
 * Checkboxes for brokers: {element, chosen(), tick(ids)}; `onchange` is called when the user changes one. Brokers that
 * are down are marked.
 */
export function brokerChoice(view, label, hint, onchange = () => {}) {
  const places = h("div", { class: "checks" });
  const element = h("fieldset", { class: "field" }, h("legend", {}, label), places, h("p", { class: "hint" }, hint));
  let wanted = [];
  health(view.signal).then(
    ({ brokers }) => {
      const boxes = brokers.map((one) =>
        h(
          "label",
          { class: "check" },
          h("input", { type: "checkbox", value: one.id, onchange, checked: wanted.includes(one.id) }),
          one.state === "active" ? `broker ${one.id}` : `broker ${one.id} (${one.state})`,
        ),
      );
      places.replaceChildren(...boxes);
    },
    (problem) => places.replaceChildren(problem.message),
  );
  const boxes = () => [...places.querySelectorAll("input")];
  return {
    element,
    chosen: () => boxes().filter((one) => one.checked).map((one) => Number(one.value)),
    tick: (ids) => {
      wanted = ids;
      for (const one of boxes()) one.checked = ids.includes(Number(one.value));
    },
  };
}
