"""Parses the options of `ottla acl` into ACLs to create and filters of ACLs. No request is sent.

The words are those of `kafka-acls`. Case does not matter: `DescribeConfigs` and `DESCRIBE_CONFIGS` are equal.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from ottla.metadata_raft.acl import (
    CLUSTER_NAME,
    KNOWN_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    host_in_entries,
    word,
)
from ottla.node.cli.failure import EXIT_USAGE, CommandError

MAX_PER_COMMAND: Final = 10_000  # entries or checks: a few options may multiply to very many
_PRODUCER: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
_TRANSACTIONAL: Final = (AclOperation.WRITE, AclOperation.DESCRIBE)
_CONSUMER: Final = (AclOperation.READ, AclOperation.DESCRIBE)

K = TypeVar("K", bound=IntEnum)


class Resource(NamedTuple):
    """A resource, or a pattern of resources, named by options."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class Roles(NamedTuple):
    """The options for all operations that a producer or a consumer needs."""

    producer: bool = False
    consumer: bool = False
    idempotent: bool = False


def resources_of(
    pattern_type: PatternType,
    *,
    topics: Sequence[str],
    groups: Sequence[str],
    transactional_ids: Sequence[str],
    delegation_tokens: Sequence[str],
    user_principals: Sequence[str],
    is_cluster: bool,
) -> list[Resource]:
    """Return the resources that options name; CommandError for names that no resource can have."""
    for name in topics:
        if WILDCARD in name and name != WILDCARD:
            raise CommandError(
                f"{name!r} is not a topic name: * stands for all topics only if it stands alone. For all "
                "topics with the same beginning use --topic BEGINNING --pattern-type prefixed.",
                EXIT_USAGE,
            )
    named = (
        (ResourceType.TOPIC, topics),
        (ResourceType.GROUP, groups),
        (ResourceType.TRANSACTIONAL_ID, transactional_ids),
        (ResourceType.DELEGATION_TOKEN, delegation_tokens),
        (ResourceType.USER, user_principals),
    )
    found = [Resource(kind, name, pattern_type) for kind, names in named for name in names]
    if any(not one.name for one in found):
        raise CommandError("The name of a resource must not be empty; * stands for all.", EXIT_USAGE)
    if is_cluster:
        # There is only one cluster, so a prefix applies to the other resources.
        is_of_others = pattern_type is PatternType.PREFIXED
        pattern_type = PatternType.LITERAL if is_of_others else pattern_type
        found.append(Resource(ResourceType.CLUSTER, CLUSTER_NAME, pattern_type))
    return list(dict.fromkeys(found))


def parse_principal(text: str) -> str:
    """Parse a principal, `User:anna`; CommandError that suggests one for another text."""
    kind, separator, name = text.partition(":")
    if not separator or not kind or not name:
        likely = f"User:{text.strip(':')}" if text.strip(":") else "User:NAME"
        raise CommandError(f"{text!r} is not a principal; write it as {likely}.", EXIT_USAGE)
    return text


def parse_host(text: str) -> str:
    """Parse the address of a client, or `*`, into the form of entries; CommandError if it is not an address.

    Nodes compare addresses as texts, so ::1 is returned as they write it.
    """
    if text == WILDCARD:
        return text
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise CommandError(
            f"{text!r} is not an IP address. Give one such as 10.0.0.7, or * for all; ACLs cannot have host "
            "names or ranges.",
            EXIT_USAGE,
        ) from None
    return host_in_entries(text)


def parse_operations(texts: Sequence[str]) -> list[AclOperation]:
    """Parse operations, separated by commas or repeated."""
    words = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    return list(dict.fromkeys(_parse(AclOperation, each, "operation") for each in words))


def parse_permission(text: str | None) -> AclPermissionType:
    """Parse the permission of a filter: ALLOW, DENY, or ANY if None."""
    return AclPermissionType.ANY if text is None else _parse(AclPermissionType, text, "permission")


def parse_pattern_type(text: str) -> PatternType:
    """Parse a pattern type."""
    return _parse(PatternType, text, "pattern type")


def _parse(kind: type[K], text: str, noun: str) -> K:
    known = {one.name.replace("_", ""): one for one in kind if one.name not in ("UNKNOWN", "ANY")}
    if kind is PatternType:
        known["ANY"] = kind(PatternType.ANY)
    found = known.get(text.upper().replace("_", "").replace("-", ""))
    if found is None:
        names = ", ".join(one.name.lower() for one in known.values())
        raise CommandError(f"{text!r} is not a known {noun}; use one of {names}.", EXIT_USAGE)
    return found


# ---- new entries -----------------------------------------------------------------------------------


def new_entries(
    resources: Sequence[Resource],
    *,
    allowed: Sequence[str],
    denied: Sequence[str],
    operations: Sequence[AclOperation],
    hosts: Sequence[str],
    roles: Roles,
) -> list[AccessControlEntry]:
    """Return the entries for the options of `acl create`; CommandError if the options do not fit together."""
    if not allowed and not denied:
        raise CommandError("Name a principal with --allow User:NAME or --deny User:NAME.", EXIT_USAGE)
    if roles.producer or roles.consumer:
        granted = _grants_of_roles(resources, denied, operations, roles)
    else:
        granted = _grants_of_operations(resources, operations, roles)
    principals = [
        *((AclPermissionType.ALLOW, principal) for principal in allowed),
        *((AclPermissionType.DENY, principal) for principal in denied),
    ]
    count = len(granted) * len(principals) * len(hosts)
    if count > MAX_PER_COMMAND:
        raise CommandError(
            f"These would be {count:,} ACLs; a command creates at most {MAX_PER_COMMAND:,}.", EXIT_USAGE
        )
    entries = [
        AccessControlEntry(*resource, principal, host, operation, permission)
        for permission, principal in principals
        for resource, operation in granted
        for host in hosts
    ]
    return sorted(set(entries))


def _grants_of_operations(
    resources: Sequence[Resource], operations: Sequence[AclOperation], roles: Roles
) -> list[tuple[Resource, AclOperation]]:
    if roles.idempotent:
        raise CommandError("--idempotent goes with --producer.", EXIT_USAGE)
    if not operations:
        raise CommandError(
            "Name an operation with --operation (read, write, ..., all), or give --producer or --consumer.",
            EXIT_USAGE,
        )
    return pair_operations(resources, operations)


def pair_operations(
    resources: Sequence[Resource], operations: Sequence[AclOperation]
) -> list[tuple[Resource, AclOperation]]:
    """Return each resource with each operation; CommandError if there are none, or one does not fit.

    Without operations, each resource is returned with all of its operations.
    """
    if not resources:
        raise CommandError(
            "Name a resource with --topic, --group, --transactional-id, --cluster, --delegation-token or "
            "--user-principal.",
            EXIT_USAGE,
        )
    for resource in resources:
        known = KNOWN_OPERATIONS[resource.resource_type]
        for operation in operations:
            if operation is not AclOperation.ALL and operation not in known:
                kind = in_words(ResourceType, resource.resource_type)
                names = ", ".join(one.name.lower() for one in known)
                raise CommandError(
                    f"A {kind} has no operation {operation.name.lower()}; it has {names} and all.", EXIT_USAGE
                )
    return [
        (resource, operation)
        for resource in resources
        for operation in operations or KNOWN_OPERATIONS[resource.resource_type]
    ]


def _grants_of_roles(
    resources: Sequence[Resource], denied: Sequence[str], operations: Sequence[AclOperation], roles: Roles
) -> list[tuple[Resource, AclOperation]]:
    if operations or denied:
        raise CommandError(
            "--producer and --consumer allow all that such a client needs; they cannot be used with "
            "--operation or --deny.",
            EXIT_USAGE,
        )
    kinds = {one.resource_type for one in resources}
    if ResourceType.TOPIC not in kinds:
        raise CommandError("--producer and --consumer need a --topic.", EXIT_USAGE)
    if roles.consumer and ResourceType.GROUP not in kinds:
        raise CommandError("--consumer needs a --group, which the consumer joins.", EXIT_USAGE)
    if roles.idempotent and not roles.producer:
        raise CommandError("--idempotent goes with --producer.", EXIT_USAGE)
    needed: dict[ResourceType, list[AclOperation]] = {}
    if roles.producer:
        needed[ResourceType.TOPIC] = list(_PRODUCER)
        needed[ResourceType.TRANSACTIONAL_ID] = list(_TRANSACTIONAL)
    if roles.consumer:
        needed.setdefault(ResourceType.TOPIC, []).extend(_CONSUMER)
        needed[ResourceType.GROUP] = [AclOperation.READ]
    for resource in resources:
        if resource.resource_type not in needed:
            kind = in_words(ResourceType, resource.resource_type)
            role = "--consumer" if roles.consumer and not roles.producer else "--producer"
            raise CommandError(f"{role} cannot be used with a {kind}.", EXIT_USAGE)
    granted = [(one, operation) for one in resources for operation in needed[one.resource_type]]
    if roles.idempotent:
        cluster = Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        granted.append((cluster, AclOperation.IDEMPOTENT_WRITE))
    return granted


# ---- selections -----------------------------------------------------------------------------------


class Selection(NamedTuple):
    """A selection of entries: those of any of the resources that match each other field.

    An empty field matches all.
    """

    resources: Sequence[Resource] = ()
    principals: Sequence[str] = ()
    operations: Sequence[AclOperation] = ()
    hosts: Sequence[str] = ()
    permission: AclPermissionType = AclPermissionType.ANY
    pattern_type: PatternType = PatternType.ANY  # if no resource is named

    @property
    def is_everything(self) -> bool:
        """Return True if no option restricts the selection."""
        named = (self.resources, self.principals, self.operations, self.hosts)
        return not any(named) and self.permission is AclPermissionType.ANY

    def filters(self) -> list[AclFilter]:
        """Return the filters to send, one per resource; together they match at least the selection."""
        any_of_all = (ResourceType.ANY, None, self.pattern_type)
        return [
            AclFilter(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern_type,
                principal=self.principals[0] if len(self.principals) == 1 else None,
                host=self.hosts[0] if len(self.hosts) == 1 else None,
                operation=self.operations[0] if len(self.operations) == 1 else AclOperation.ANY,
                permission_type=self.permission,
            )
            for kind, name, pattern_type in self.resources or (any_of_all,)
        ]

    def choose(self, entries: Iterable[AccessControlEntry]) -> list[AccessControlEntry]:
        """Return the entries of a response that are selected, without duplicates, sorted by resource."""
        return sorted(
            {
                one
                for one in entries
                if (not self.principals or one.principal in self.principals)
                and (not self.operations or one.operation in self.operations)
                and (not self.hosts or one.host in self.hosts)
                and self.permission in (AclPermissionType.ANY, one.permission_type)
            }
        )


# ---- words ---------------------------------------------------------------------------------------


def in_words(kind: type[IntEnum], number: int) -> str:
    """Return a constant of Kafka in lower case, as options accept it."""
    return word(kind, number).lower()


def entry_in_words(entry: AccessControlEntry) -> str:
    """Return an entry as text: `allow User:anna read on topic orders from *`."""
    names = " names that begin with" if entry.pattern_type == PatternType.PREFIXED else ""
    return (
        f"{in_words(AclPermissionType, entry.permission_type)} {entry.principal} "
        f"{in_words(AclOperation, entry.operation)} on {in_words(ResourceType, entry.resource_type)}{names} "
        f"{entry.resource_name} from {entry.host}"
    )
