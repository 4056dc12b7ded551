// The problems of the cluster, and how to fix them: the findings of ottla doctor.

import { doctor } from "../ask/doctor.js";
import { h } from "../dom.js";
import { clock, many, words } from "../format.js";
import { badge, button, link } from "../parts.js";
import { table } from "../table.js";

const EVERY_MS = 15_000; // the node keeps its findings for ten seconds
// The pages of the console for subjects of findings.
const PLACES = {
  broker: "#/brokers",
  disk: "#/brokers",
  partition: "#/topics",
  quorum: "#/quorum",
  access: "#/access",
  "share group": "#/groups",
};

export function doctorPage(view) {
  const found = view.live({ every: EVERY_MS, ask: doctor, draw });
  view.show(
    "Doctor",
    h("div", { class: "head" }, h("h1", {}, "Doctor"), button("Look again", found.refresh)),
    h(
      "p",
      { class: "hint" },
      "The node examines listeners, addresses, the quorum, disks, clocks, versions and partitions of all nodes with your rights. A problem is something that does not work, or soon will not; a note may be intended.",
    ),
    found,
  );
}

function draw({ is_healthy, checked_at, findings }) {
  const problems = findings.filter((one) => one.severity === "problem").length;
  const notes = findings.length - problems;
  return [
    h(
      "div",
      { class: `summary ${is_healthy ? "good" : "bad"}`, role: "status" },
      h("strong", {}, problems === 0 ? "No problems were found." : `${many(problems, "problem")}.`),
      h("span", {}, `${many(notes, "note")}, examined at ${clock(Date.parse(checked_at))}`),
    ),
    table({
      caption: "Findings",
      rows: findings,
      key: (one) => `${one.severity}:${one.subject}:${one.message}`,
      empty: "There is nothing to do.",
      columns: [
        { title: "Severity", cell: (one) => badge(one.severity === "problem" ? "bad" : "warn", one.severity) },
        { title: "About", cell: ({ subject }) => (PLACES[subject] ? link(PLACES[subject], words(subject)) : words(subject)) },
        { title: "Cause, and what to do", head: true, cell: (one) => h("p", { class: "finding" }, one.message) },
      ],
    }),
  ];
}
