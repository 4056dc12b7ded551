// The head of the pages of users, ACLs and quotas.

import { h } from "./dom.js";
import { tabs } from "./parts.js";

export function accessHead(href) {
  return [
    h("h1", {}, "Access"),
    tabs(
      "Pages of access",
      [
        ["#/access", "Users"],
        ["#/access/acls", "ACLs"],
        ["#/access/quotas", "Quotas"],
      ],
      href,
    ),
  ];
}
