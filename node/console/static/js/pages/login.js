// The page for users who have to log in first.

import { logIn, logInByToken } from "../ask/session.js";
import { h } from "../dom.js";
import { area, field, form, input } from "../form.js";
import { note } from "../parts.js";
import { methods } from "../session.js";

export function loginPage(view) {
  const ways = methods();
  view.show(
    "Log in",
    h("h1", {}, "Log in"),
    ways.includes("basic") && byPassword(),
    ways.includes("bearer") && byToken(),
    ways.length === 1 && ways[0] === "certificate" && byCertificate(),
  );
}

function byPassword() {
  return form(
    { label: "Log in", action: "Log in", act: ({ user, password }) => logIn(user, password) },
    field("User", input("user", { autocomplete: "username", autocapitalize: "none", autofocus: true })),
    field("Password", input("password", { type: "password", autocomplete: "current-password" })),
  );
}

function byToken() {
  return form(
    { label: "Log in with a token", action: "Log in with this token", act: ({ token }) => logInByToken(token.trim()) },
    field("Access token", area("token", { rows: 3, autocomplete: "off" }), "A JWT of the provider that this cluster trusts."),
  );
}

function byCertificate() {
  return note("", "This node authenticates users by certificates. Install your certificate in this browser, and reload the page.");
}
