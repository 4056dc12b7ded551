// Fields with labels, and forms that show errors beside their button.

import { h } from "./dom.js";

let fields = 0;

/** A labelled control; `hint` stands below it and screen readers read it with the label. */
export function field(label, control, hint) {
  fields += 1;
  control.id = `field-${fields}`;
  if (hint) control.setAttribute("aria-describedby", `${control.id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: control.id }, label),
    control,
    hint && h("p", { class: "hint", id: `${control.id}-hint` }, hint),
  );
}

export function input(name, more = {}) {
  return h("input", { name, type: "text", autocomplete: "off", spellcheck: "false", ...more });
}

export function choice(name, pairs, chosen, more = {}) {
  return h(
    "select",
    { name, ...more },
    pairs.map(([value, word]) => h("option", { value, selected: String(value) === String(chosen) }, word)),
  );
}

export function area(name, more = {}) {
  return h("textarea", { name, rows: 5, spellcheck: "false", ...more });
}

/** A form; errors that `act(values, form)` throws are shown in the form. `values` are texts by name. */
export function form({ label, action, act, danger = false, others = [] }, ...children) {
  const problem = h("p", { class: "problem", role: "alert" });
  const go = h("button", { type: "submit", class: danger ? "danger" : "main" }, action);
  const onsubmit = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    go.disabled = true;
    try {
      await act(Object.fromEntries(new FormData(made)), made);
    } catch (error) {
      problem.append(h("span", {}, error.message));
    } finally {
      go.disabled = false;
    }
  };
  const made = h(
    "form",
    { "aria-label": label, onsubmit, novalidate: true },
    h("div", { class: "fields" }, children),
    problem,
    h("div", { class: "actions" }, go, others),
  );
  return made;
}

/** Return the parts between commas. */
export function parts(value) {
  return value
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
}

/** Return integers separated by commas; null for an empty optional field. */
export function wholes(value, label, { optional = false } = {}) {
  const given = parts(value);
  if (optional && given.length === 0) return null;
  return (given.length ? given : [""]).map((one) => whole(one, label));
}

/** Return a number above zero from a field; an error names the field. */
export function decimal(value, label, { optional = false } = {}) {
  const trimmed = value.trim();
  if (optional && trimmed === "") return null;
  if (!/^\d{0,12}(\.\d{1,6})?$/.test(trimmed) || !(Number(trimmed) > 0)) {
    throw new Error(`${label} must be a number above zero.`);
  }
  return Number(trimmed);
}

/** Return an integer from a field; an error names the field. */
export function whole(value, label, { least = 0, optional = false } = {}) {
  const trimmed = String(value ?? "").trim();
  if (optional && trimmed === "") return null;
  if (!/^-?\d{1,18}$/.test(trimmed) || Number(trimmed) < least) {
    const limit = least > -Number.MAX_SAFE_INTEGER ? ` of at least ${least}` : "";
    throw new Error(`${label} must be a whole number${limit}.`);
  }
  return Number(trimmed);
}
