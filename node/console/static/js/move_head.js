// What the pages of replicas on the move begin with.

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
