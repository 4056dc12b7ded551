// Starts the console: the bar, the pages by their addresses, the colours.

import { RequestTimeout } from "./api.js";
import { askNodeIdentity, nodeId } from "./ask/cluster.js";
import { askSession, logOut } from "./ask/session.js";
import { report, showIn } from "./connection.js";
import { h } from "./dom.js";
import { clock, duration } from "./format.js";
import { icon } from "./icons.js";
import { loginPage } from "./pages/login.js";
import { note, say } from "./parts.js";
import { repeat } from "./repeat.js";
import { match } from "./router.js";
import { ROUTES } from "./routes.js";
import { hasSession, needsLogin, principal, whenChanged } from "./session.js";
import { View } from "./view.js";

const PAGES = [
  ["#/", "Overview"],
  ["#/topics", "Topics"],
  ["#/groups", "Groups"],
  ["#/transactions", "Transactions"],
  ["#/brokers", "Brokers"],
  ["#/reassignments", "Reassignments"],
  ["#/quorum", "Quorum"],
  ["#/doctor", "Doctor"],
  ["#/access", "Access"],
];

const AGE_EVERY_MS = 1_000;
const main = document.getElementById("main");
const pages = document.getElementById("pages");
const menu = document.getElementById("menu");
let view = null;
let askNode = () => {};

function showPage() {
  view?.end.abort();
  view = new View(main);
  const found = match(ROUTES, location.hash);
  if (needsLogin()) loginPage(view);
  else if (found) found.page(view, found.found);
  else
    view.show(
      "No such page",
      h("h1", {}, "No such page"),
      note("", "The console has no page at this address."),
    );
  const here = "#/" + location.hash.replace(/^#\/?/, "").split(/[/?]/)[0];
  for (const link of pages.children) {
    if (link.getAttribute("href") === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  setMenu(false);
  showAge();
}

function setMenu(isOpen) {
  menu.setAttribute("aria-expanded", String(isOpen));
  document.body.classList.toggle("menu-open", isOpen);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("ottla.theme", theme);
  } catch {
    // The choice lasts until the page is reloaded.
  }
  nameTheme();
}

function isDark() {
  return (
    (document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark"
  );
}

function nameTheme() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  document.getElementById("theme").setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
}

/** Show the age of the oldest part of the page, and the node that it is from. */
function showAge() {
  const oldest = view?.oldest() ?? null;
  const node = nodeId();
  const seconds = Math.floor((Date.now() - oldest) / 1000);
  document.getElementById("age").textContent =
    oldest === null || node === null
      ? ""
      : `From node ${node} at ${clock(oldest)}, ${seconds < 1 ? "just now" : `${duration(seconds * 1000)} ago`}`;
}

/** Show the cluster and the node; asked on every page, so that every page notices a node that is down. */
function showNode() {
  const node = document.getElementById("current-node");
  askNode = repeat(
    5_000,
    async () => {
      if (needsLogin()) return;
      try {
        const reply = await askNodeIdentity();
        node.title = `Ottla ${reply.version}`;
        node.replaceChildren(
          h("span", {}, `node ${reply.node_id}`),
          h("span", { class: "cluster" }, `cluster ${reply.cluster_id}`),
        );
      } catch (error) {
        if (error instanceof RequestTimeout) report(false); // this request needs no other node, so the node hangs
      }
    },
    new AbortController().signal,
  );
}

/** Show the user in the bar, with a button to log out. */
function showUser() {
  const user = principal();
  const place = document.getElementById("current-user");
  place.textContent = place.title = user === null ? "" : user.replace(/^User:/, "");
  document.getElementById("logout").hidden = !hasSession();
  document.body.classList.toggle("logged-out", needsLogin());
}

/** Draw the page again after a change of user: no content of the earlier user stays. */
function showForUser() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  document.getElementById("current-node").replaceChildren();
  showUser();
  showPage();
  askNode();
}

/** Ask for the session until the node has answered. */
async function begin() {
  for (;;) {
    try {
      await askSession();
      break;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 2_000));
    }
  }
  whenChanged(showForUser);
  showUser();
  showPage();
  showNode();
}

pages.append(...PAGES.map(([href, word]) => h("a", { href }, icon(word.toLowerCase()), word)));
menu.onclick = () => setMenu(menu.getAttribute("aria-expanded") !== "true");
document.getElementById("theme").onclick = () => setTheme(isDark() ? "light" : "dark");
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
document.querySelector(".skip").onclick = (event) => {
  event.preventDefault(); // as a link it would lead to another page
  main.focus();
};
showIn(document.getElementById("down"));
nameTheme();
document.getElementById("logout").onclick = () => logOut().catch((error) => say(error.message));
addEventListener("hashchange", () => {
  showPage();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
setInterval(showAge, AGE_EVERY_MS);
begin();
