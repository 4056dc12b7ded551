// Fields in which topics, partitions and brokers are chosen: of those that there are, so that none is misspelt.

import { health } from "./ask/cluster.js";
import { partitions, topics } from "./ask/topics.js";
import { h } from "./dom.js";
import { choice } from "./form.js";
import { byName } from "./format.js";

const SHOWN = 6; // lines of a list of which several may be chosen

/** A select of topics; `first` is the word for none of them, in one where several may be chosen there is none. */
export function topicChoice(view, name, { first = "choose a topic", multiple = false, ...more } = {}) {
  const made = multiple
    ? choice(name, [], null, { multiple: true, size: SHOWN, ...more })
    : choice(name, [["", first]], "", more);
  topics("", 0, view.signal).then(
    (all) => offer(made, all.map((one) => one.topic)),
    () => offer(made, []), // the node's refusal comes with the form
  );
  return made;
}

/** Topics by name, as choices beside those that are there. */
export function offer(select, names) {
  select.append(...[...names].sort(byName).map((one) => h("option", { value: one }, one)));
}

/** A select of a topic's partitions, which follows the topic that is chosen; `first` is the word for none of them. */
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
 * Brokers to tick: {element, chosen(), tick(ids)}; `onchange` is called when one was ticked. A broker that does not
 * run says so.
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
