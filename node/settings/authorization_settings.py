"""The broker settings of the authorizer, and the parsed result."""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.config_def import ConfigKey, ConfigValue, Validator
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl_set import AuthorizerSettings, super_users
from ottla.node.settings.setting import BOOLEAN, HIGH, STRING, setting

# The class name of Kafka's authorizer; as a value it makes a node use its own.
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER_CLASS: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
ANONYMOUS: Final = "User:ANONYMOUS"  # a client that has neither logged in nor shown a certificate
# Settings that have an effect only with an authorizer.
OF_AUTHORIZER: Final = frozenset({SUPER_USERS, ALLOW_EVERYONE})


def _class_problem(value: ConfigValue) -> str | None:
    if value in ("", STANDARD_AUTHORIZER):
        return None
    return f"the only authorizer is {STANDARD_AUTHORIZER}. Leave the setting empty for none."


def _super_users_problem(value: ConfigValue) -> str | None:
    try:
        super_users(str(value))
    except KafkaError as error:
        return error.detail
    return None


AUTHORIZATION_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        AUTHORIZER_CLASS,
        STRING,
        "",
        f"With {STANDARD_AUTHORIZER}, access control lists (ACLs), which kafka-acls and "
        "`ottla acl` create, decide what clients may do; all else is denied. If empty, every client may use "
        "all topics and groups. Use the same value on all nodes of a cluster.",
        Validator(allowed=f"[{STANDARD_AUTHORIZER}] or empty", problem_of=_class_problem),
        importance=HIGH,
    ),
    setting(
        SUPER_USERS,
        STRING,
        "",
        "Principals that may do everything, whatever the ACLs are, separated by semicolons: "
        "User:admin;User:CN=kafka-admin,O=Example. They can create the first ACLs.",
        Validator(allowed="principals (TYPE:NAME), separated by semicolons", problem_of=_super_users_problem),
        importance=HIGH,
    ),
    setting(
        ALLOW_EVERYONE,
        BOOLEAN,
        False,
        "If true, every client may use a resource that has no ACLs. The first ACL of a resource, for any "
        "principal, closes it to all clients that no ACL allows.",
    ),
)


def ignored_acls_sentence(count: int) -> str:
    """Return the warning of a node without an authorizer whose metadata has this number of ACLs."""
    are = "1 ACL, which has" if count == 1 else f"{count} ACLs, which have"
    return (
        f"The metadata holds {are} no effect here, since this node has no authorizer: every client may use "
        f"all topics and groups. Set {AUTHORIZER_CLASS}={STANDARD_AUTHORIZER}; with it ACLs can be deleted, "
        "too."
    )


def authorizer_settings(values: Mapping[str, ConfigValue]) -> AuthorizerSettings | None:
    """Return the super users and the default of the authorizer; None if there is no authorizer."""
    if not values[AUTHORIZER_CLASS]:
        return None
    return AuthorizerSettings(
        super_users=super_users(str(values[SUPER_USERS])),
        allow_everyone_if_no_acl_found=bool(values[ALLOW_EVERYONE]),
    )
