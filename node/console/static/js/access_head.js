// What the pages of users, ACLs and quotas begin with.

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
