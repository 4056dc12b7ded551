// Access control entries: their list, adding and deleting them.

import { acls, createAcl, deleteAcl } from "../ask/access.js";
import { accessHead } from "../access_head.js";
import { ask, open } from "../dialog.js";
import { h } from "../dom.js";
import { choice, field, form, input } from "../form.js";
import { badge, button, say } from "../parts.js";
import { searchedList } from "../searched_list.js";

const pairs = (...words) => words.map((word) => [word, word]);
const TYPES = pairs("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER");
const PATTERNS = [
  ["LITERAL", "exactly this name"],
  ["PREFIXED", "names that begin with it"],
];
const OPERATIONS = pairs(
  ...["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS"],
  ...["ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT", "ALL"],
);
const FIELDS = ["resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission"];

export function aclsPage(view) {
  const { tools, list } = searchedList(view, {
    ask: acls,
    words: (one) => FIELDS.map((name) => one[name]).join(" "),
    noun: "ACL",
    placeholder: "a principal, a name, an operation",
    caption: "ACLs",
    key: (one) => FIELDS.map((name) => one[name]).join("\0"),
    none: "There are no ACLs yet: only super users may do anything.",
    notFound: "No ACL contains this text.",
    columns: (shown) => [
      { title: "Principal", head: true, cell: (one) => one.principal },
      {
        title: "Permission",
        cell: (one) => badge(one.permission === "DENY" ? "bad" : "good", one.permission.toLowerCase()),
      },
      { title: "Operation", cell: (one) => one.operation },
      { title: "Resource", cell: (one) => resource(one) },
      { title: "Host", cell: (one) => (one.host === "*" ? "any" : one.host) },
      {
        title: "Change",
        cell: (one) =>
          button("Delete…", () => askToDelete(one, shown.refresh), { "aria-label": `Delete the ACL of ${one.principal}` }),
      },
    ],
  });
  view.show(
    "ACLs",
    accessHead("#/access/acls"),
    h("p", { class: "hint" }, "An ACL allows or denies a principal an operation. DENY takes precedence over ALLOW, and what no ACL allows is denied."),
    h("div", { class: "actions" }, button("Create an ACL…", () => openAcl(list.refresh), { class: "main" })),
    tools,
    list,
  );
}

function resource(one) {
  const kind = one.resource_type.toLowerCase().replaceAll("_", " ");
  if (one.resource_name === "*") return `any ${kind}`;
  return one.pattern_type === "PREFIXED" ? `${kind} ${one.resource_name}…` : `${kind} ${one.resource_name}`;
}

function openAcl(refresh) {
  const made = form(
    {
      label: "New ACL",
      action: "Create",
      others: [button("Cancel", () => close())],
      act: async (values) => {
        const acl = Object.fromEntries(FIELDS.map((name) => [name, values[name].trim()]));
        if (acl.resource_type === "CLUSTER") acl.resource_name = "kafka-cluster";
        if (!acl.principal) throw new Error("Principal must not be empty.");
        if (!acl.resource_name) throw new Error("Resource name must not be empty.");
        await createAcl({ ...acl, host: acl.host || "*" });
        close();
        say(`The ACL of ${acl.principal} is created.`);
        refresh();
      },
    },
    field("Principal", input("principal", { autofocus: true, placeholder: "User:name" }), "User:NAME, or User:* for any user."),
    field("Permission", choice("permission", pairs("ALLOW", "DENY"), "ALLOW")),
    field("Operation", choice("operation", OPERATIONS, "READ")),
    field("Resource type", choice("resource_type", TYPES, "TOPIC")),
    field("Resource name", input("resource_name"), "* stands for all resources of this type. Not used for CLUSTER."),
    field("Names that it applies to", choice("pattern_type", PATTERNS, "LITERAL")),
    field("Host", input("host", { value: "*" }), "The IP address of the client, or * for any."),
  );
  const close = open("Create an ACL", null, made);
}

async function askToDelete(one, refresh) {
  const isDone = await ask({
    title: "Delete this ACL?",
    effect: `${one.principal} from ${one.host === "*" ? "any host" : one.host}: ${one.permission.toLowerCase()} ${one.operation} on ${resource(one)}.`,
    action: "Delete the ACL",
    act: () => deleteAcl(Object.fromEntries(FIELDS.map((name) => [name, one[name]]))),
  });
  if (isDone) say("The ACL is deleted.");
  refresh();
}
