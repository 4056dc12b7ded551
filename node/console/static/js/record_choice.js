// The choice of records on a page: the form, and its values in the address.

import { keepInAddress } from "./address.js";
import { choice, field, form, input } from "./form.js";
import { localMoment, momentOf, selectionOf } from "./record_selection.js";

const DEFAULT_COUNT = "50";
const FROM = [
  ["latest", "newest"],
  ["earliest", "oldest"],
  ["offset", "offset"],
  ["time", "time"],
];

/** The form, filled from the address; `read` is called with a selection. `live` is the button beside the form's own. */
export function recordChoice(given, live, read) {
  const known = given.partition ? [[given.partition, given.partition]] : [];
  const partition = choice("partition", [["", "all"], ...known], given.partition ?? "");
  const from = choice("from", FROM, FROM.some(([name]) => name === given.from) ? given.from : "latest");
  const place = field("Offset", input("place", { inputmode: "numeric", value: given.place }));
  const at = field(
    "Time",
    input("at", { type: "datetime-local", step: "0.001", value: localMoment(given.at) }),
    "In this computer's time zone. Starts at the first record at or after this time.",
  );
  const adapt = () => {
    place.hidden = from.value !== "offset";
    at.hidden = from.value !== "time";
  };
  from.onchange = adapt;
  adapt();

  const made = form(
    {
      label: "Which records",
      action: "Read",
      others: [live],
      act: (values) => {
        const selection = selectionOf(values);
        keepInAddress({
          partition: values.partition,
          from: values.from === "latest" ? "" : values.from,
          place: values.from === "offset" ? values.place : "",
          at: values.from === "time" ? momentOf(values.at) : "",
          filter: values.filter,
          count: values.count === DEFAULT_COUNT ? "" : values.count,
          cursor: "",
          show: "",
        });
        return read(selection);
      },
    },
    field("Partition", partition),
    field("From", from),
    place,
    at,
    field(
      "Filter",
      input("filter", { type: "search", placeholder: "text in key or value", value: given.filter }),
      "Or a field of a JSON value, such as $.user.id=42. Leave empty for all records.",
    ),
    field("Maximum records", input("count", { value: given.count ?? DEFAULT_COUNT, inputmode: "numeric" }), "1 to 10,000. Default: 50."),
  );

  return { made, partition };
}
