// The head of the pages of replica moves.

import { h } from "./dom.js";
import { tabs } from "./parts.js";

export function moveHead(href) {
  return [
    h("h1", {}, "Reassignments"),
    tabs(
      "Pages of reassignments",
      [
        ["#/reassignments", "Moves"],
        ["#/reassignments/balance", "Balance"],
        ["#/reassignments/throttles", "Throttles"],
      ],
      href,
    ),
  ];
}
