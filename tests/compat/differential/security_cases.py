"""ACLs without an authorizer, client quotas and SCRAM credentials: rejected requests, and lasting changes."""

from typing import Any

from tests.compat.differential.cases import Context, Fields, case

# ---- ACLs --------------------------------------------------------------------------------------------------

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3
FILTER: Fields = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
ACL: Fields = {"resource_name": "t", "principal": "User:a", "host": "*", "operation": READ}

case(
    "create_acls",
    "without an authorizer",
    {
        "creations": [
            {**ACL, "resource_type": TOPIC, "resource_pattern_type": LITERAL, "permission_type": ALLOW}
        ]
    },
)
case("create_acls", "nothing", {"creations": []})
case(
    "describe_acls",
    "without an authorizer",
    {
        **FILTER,
        "resource_type_filter": ANY,
        "pattern_type_filter": ANY,
        "operation": ANY,
        "permission_type": ANY,
    },
)
case(
    "delete_acls",
    "without an authorizer",
    {
        "filters": [
            {
                **FILTER,
                "resource_type_filter": ANY,
                "pattern_type_filter": ANY,
                "operation": ANY,
                "permission_type": ANY,
            }
        ]
    },
)
case("delete_acls", "nothing", {"filters": []})

# ---- client quotas -----------------------------------------------------------------------------------------

Entity = list[tuple[str, str | None]]


def quotas(name: str, entity: Entity, *ops: tuple[str, float | None], validate_only: bool = False) -> None:
    case(
        "alter_client_quotas",
        name,
        {
            "entries": [
                {
                    "entity": [{"entity_type": kind, "entity_name": named} for kind, named in entity],
                    "ops": [
                        {"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops
                    ],
                }
            ],
            "validate_only": validate_only,
        },
    )


def described(name: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
    case(
        "describe_client_quotas",
        name,
        {
            "components": [
                {"entity_type": kind, "match_type": match_type, "match": match}
                for kind, match_type, match in components
            ],
            "strict": strict,
        },
    )


USER: Entity = [("user", "differ")]
quotas("of a user", USER, ("producer_byte_rate", 1024.0), ("request_percentage", 12.5))
# Large enough to throttle no client: Kafka enforces it, and other tests fetch from it later.
quotas("of all users", [("user", None)], ("consumer_byte_rate", 2.0**40))
quotas("of a user's client", [("user", "differ"), ("client-id", "c")], ("controller_mutation_rate", 0.5))
quotas("of an address", [("ip", "10.1.2.3")], ("connection_creation_rate", 7.0))
quotas("only tried", USER, ("consumer_byte_rate", 9.0), validate_only=True)
quotas("without changes", USER)
quotas("removed that was not there", USER, ("consumer_byte_rate", None))
quotas("nobody", [], ("producer_byte_rate", 1.0))
quotas("an empty name", [("user", "")], ("producer_byte_rate", 1.0))
quotas("an unknown type", [("robot", "r")], ("producer_byte_rate", 1.0))
quotas("an address and a user", [("ip", None), ("user", "a")], ("producer_byte_rate", 1.0))
quotas("an address that is none", [("ip", "no address")], ("connection_creation_rate", 1.0))
quotas("an unknown key", USER, ("nonsense", 1.0))
quotas("an unknown key removed", USER, ("nonsense", None))
quotas("a key of addresses", USER, ("connection_creation_rate", 1.0))
quotas("a key of users", [("ip", None)], ("producer_byte_rate", 1.0))
quotas("a key twice", USER, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))
quotas("zero", USER, ("producer_byte_rate", 0.0))
quotas("negative", USER, ("request_percentage", -1.0))
quotas("a fraction", USER, ("producer_byte_rate", 1.5))
quotas("too large", USER, ("producer_byte_rate", 1e19))
quotas("too large for an address", [("ip", None)], ("connection_creation_rate", 3e9))

described("all")
described("strictly nothing", strict=True)
described("a user", ("user", 0, "differ"))
described("a user strictly", ("user", 0, "differ"), strict=True)
described("all users' default", ("user", 1, None))
described("any user", ("user", 2, None))
described("any user's client", ("user", 2, None), ("client-id", 0, "c"))
described("any address", ("ip", 2, None))
described("a user twice", ("user", 0, "a"), ("user", 2, None))
described("an unknown type", ("robot", 0, "r"))
described("no type", ("", 0, "r"))
described("a match without a name", ("user", 0, None))
described("a default with a name", ("user", 1, "a"))
described("any with a name", ("user", 2, "a"))
described("an unknown match", ("user", 3, None))
described("an address and a user", ("user", 2, None), ("ip", 2, None))

# Last, since only Kafka describes it afterwards, and large enough not to throttle later connections to Kafka.
quotas("a host name", [("ip", "localhost")], ("connection_creation_rate", 1e6))

# ---- SCRAM credentials -------------------------------------------------------------------------------------


def credentials(name: str, *upsertions: tuple[str, int, int], deletions: Any = ()) -> None:
    def ask(c: Context) -> Fields:
        return {
            "deletions": [{"name": user, "mechanism": mechanism} for user, mechanism in deletions],
            "upsertions": [
                {
                    "name": user,
                    "mechanism": mechanism,
                    "iterations": iterations,
                    "salt": b"salt",
                    "salted_password": bytes([1]) * (64 if mechanism == 2 else 32),
                }
                for user, mechanism, iterations in upsertions
            ],
        }

    case("alter_user_scram_credentials", name, ask)


def described_users(name: str, *users: str, all_users: bool = False) -> None:
    named = None if all_users else [{"name": user} for user in users]
    case("describe_user_scram_credentials", name, {"users": named})


# Cases of clients on PLAINTEXT, which have no identity; `acl_cases` has those of clients that log in.
case("create_delegation_token", "of its own", {"renewers": [], "max_lifetime_ms": -1})
case(
    "create_delegation_token",
    "of somebody else",
    {"owner_principal_type": "User", "owner_principal_name": "ann", "renewers": [], "max_lifetime_ms": -1},
    since=3,
)
case("renew_delegation_token", "of nobody", {"hmac": b"mac", "renew_period_ms": -1})
case("expire_delegation_token", "of nobody", {"hmac": b"mac", "expiry_time_period_ms": -1})
case("describe_delegation_token", "all", {"owners": None})

credentials("new", ("differ-alice", 1, 4096), ("differ-bob", 2, 8192))
credentials("another mechanism", ("differ-alice", 2, 16384))
credentials("replaced", ("differ-alice", 1, 4097))
credentials("without a name", ("", 1, 4096))
credentials("an unknown mechanism", ("differ-alice", 0, 4096), ("differ-bob", 3, 4096))
credentials("too few iterations", ("differ-alice", 1, 4095))
credentials("too many iterations", ("differ-alice", 1, 16385))
credentials("twice", ("differ-alice", 1, 4096), ("differ-alice", 2, 4096), ("differ-carol", 1, 4096))
credentials("set and removed", ("differ-alice", 1, 4096), deletions=[("differ-alice", 1)])
credentials("removed that was not there", deletions=[("nobody", 1)])
credentials("removed without a name", deletions=[("", 1)])
credentials("removed of an unknown mechanism", deletions=[("differ-alice", 9)])
credentials("removed", deletions=[("differ-carol", 1)])
credentials("nothing")

described_users("everybody", all_users=True)
described_users("nobody named")
described_users("some", "differ-alice", "differ-bob")
described_users("unknown", "nobody", "differ-alice")
described_users("twice", "differ-alice", "differ-alice")
described_users("without a name", "")
