// Produce a single record by hand.

import { produce } from "../ask/records.js";
import { partitionChoice } from "../choosers.js";
import { h } from "../dom.js";
import { area, choice, field, form, input } from "../form.js";
import { count } from "../format.js";
import { recordHref } from "../hrefs.js";
import { button, link, note, say, section } from "../parts.js";
import { toBase64 } from "../record_bytes.js";
import { topicHead } from "../topic_head.js";

const TYPES = [
  ["STRING", "text"],
  ["JSON", "JSON"],
  ["BINARY", "base64"],
  ["NULL", "null"],
];

export function producePage(view, { topic }) {
  const headers = h("div", { class: "pairs" });
  const partition = partitionChoice(view, "partition", { first: "by the key" });
  partition.of(topic).catch(() => {}); // without the list of partitions, the key decides
  const sent = h("div", { "aria-live": "polite" });
  const addHeader = () => {
    const name = input("header-name", { "aria-label": "Header name", placeholder: "name" });
    const row = h(
      "div",
      { class: "pair" },
      name,
      input("header-value", { "aria-label": "Header value", placeholder: "value" }),
      button("Remove", () => row.remove(), { "aria-label": "Remove this header" }),
    );
    headers.append(row);
    name.focus();
  };
  const made = form(
    {
      label: "New record",
      action: "Produce",
      act: async (values) => {
        const reply = await produce(topic, {
          partition: values.partition === "" ? null : Number(values.partition),
          key: typed(values["key-type"], values.key, "Key"),
          value: typed(values["value-type"], values.value, "Value"),
          headers: headersIn(headers),
        });
        const where = `partition ${reply.partition_id}, offset ${count(reply.offset)}`;
        sent.replaceChildren(
          note("good", `The record was written to ${where}. `, link(recordHref(topic, { partition: reply.partition_id, offset: reply.offset }), "Show it")),
        );
        say(`Produced to ${topic}, ${where}.`);
      },
    },
    field("Partition", partition, "By the key: records with the same key go to the same partition; a record with a null key may go to any."),
    typedFields("Key", "key", "NULL", 2),
    typedFields("Value", "value", "STRING", 6, "null is a tombstone: it deletes the key from a compacted topic."),
    section("Headers", headers, button("Add a header", addHeader)),
  );
  view.show(`Produce to ${topic}`, topicHead(view, topic, "produce"), made, sent);
}

/** A choice of the type, and an area for the text; no text is asked for null, since it would not be sent. */
function typedFields(label, name, type, rows, hint) {
  const text = field(label, area(name, { rows }));
  const adapt = ({ target }) => {
    text.hidden = target.value === "NULL";
  };
  const types = choice(`${name}-type`, TYPES, type, { onchange: adapt });
  adapt({ target: types });
  return [field(`${label} type`, types, hint), text];
}

/** A JSON value is sent as typed: parsing and encoding it would round large numbers. */
function typed(type, text, label) {
  if (type === "NULL") return null;
  if (type === "BINARY") {
    if (!/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(text)) throw new Error(`${label} is not valid base64.`);
    return { type, data: text.replace(/\s/g, "") };
  }
  if (type === "JSON" && !isJson(text)) throw new Error(`${label} is not valid JSON.`);
  return { type: "STRING", data: text };
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function headersIn(place) {
  return [...place.querySelectorAll(".pair")].map((row) => {
    const [name, value] = row.querySelectorAll("input");
    return { name: name.value, value: toBase64(new TextEncoder().encode(value.value)) };
  });
}
