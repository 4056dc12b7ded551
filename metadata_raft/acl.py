"""Access control entries (ACLs) and their enums, with Kafka's names and numbers.

Entries keep plain numbers, so an operation or a resource type of a later release is stored and returned
unchanged.
"""

import ipaddress
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError

WILDCARD: Final = "*"  # as a literal name, every resource of the type; as a host, every host
ANY_USER: Final = "User:*"  # matches principals of every type
CLUSTER_NAME: Final = "kafka-cluster"  # the name of the only resource of the type CLUSTER

# Kafka sets no limits. Names of topics have at most 249 characters; groups and transactional ids are named by
# people or programs. A check looks up a prefix for each length that some entry has, so the limit on names
# bounds its work.
MAX_NAME_CHARACTERS: Final = 1_000
MAX_PRINCIPAL_CHARACTERS: Final = 2_000  # the subject of a certificate may be long
MAX_HOST_CHARACTERS: Final = 255


class ResourceType(IntEnum):
    """The kind of a resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The way in which the name in an entry matches names of resources."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    """The effect of an entry: allow or deny."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def word(kind: type[IntEnum], number: int) -> str:
    """Return Kafka's name of a number, or UNKNOWN if this release does not know the number."""
    try:
        return kind(number).name
    except ValueError:
        return "UNKNOWN"


# The operations that a type of resource supports [AclEntry.supportedOperations].
KNOWN_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}


class AccessControlEntry(NamedTuple):
    """A rule that allows or denies a principal an operation on the resources that it names."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        """Return the entry in the format of Kafka's audit log."""
        return (
            f"StandardAcl[resourceType={word(ResourceType, self.resource_type)}, "
            f"resourceName={self.resource_name}, patternType={word(PatternType, self.pattern_type)}, "
            f"principal={self.principal}, host={self.host}, "
            f"operation={word(AclOperation, self.operation)}, "
            f"permissionType={word(AclPermissionType, self.permission_type)}]"
        )


class AclFilter(NamedTuple):
    """The filter of DescribeAcls and DeleteAcls; a field that is None or ANY matches everything."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = AclPermissionType.ANY

    def matches(self, entry: AccessControlEntry) -> bool:
        """Return True if the filter selects the entry."""
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self._matches_pattern(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )

    def _matches_pattern(self, entry: AccessControlEntry) -> bool:
        name = self.resource_name
        if self.pattern_type == PatternType.MATCH:
            return name is None or is_named_by(name, entry.pattern_type, entry.resource_name)
        is_of_type = self.pattern_type in (PatternType.ANY, entry.pattern_type)
        return is_of_type and name in (None, entry.resource_name)


def is_named_by(name: str, pattern_type: int, pattern_name: str) -> bool:
    """Return True if a pattern matches the resource of this name."""
    if pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern_name)
    return pattern_type == PatternType.LITERAL and pattern_name in (name, WILDCARD)


def host_in_entries(address: str) -> str:
    """Return a numeric address in the notation of entries, which is Java's.

    Java writes all groups of an IPv6 address, and an IPv6 address that maps an IPv4 address as the latter.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in found.exploded.split(":"))


def check_lengths(entry: AccessControlEntry | AclFilter) -> None:
    """Reject an entry or a filter with a text that is too long (INVALID_REQUEST)."""
    for what, text, most in (
        ("resource name", entry.resource_name, MAX_NAME_CHARACTERS),
        ("principal", entry.principal, MAX_PRINCIPAL_CHARACTERS),
        ("host", entry.host, MAX_HOST_CHARACTERS),
    ):
        if text is not None and len(text) > most:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The {what} of an ACL has {len(text)} characters; at most {most} are allowed.",
            )


def operation_bits(resource_type: ResourceType) -> int:
    """Return all operations of a type as in a response: bit n stands for operation n."""
    return sum(1 << operation for operation in KNOWN_OPERATIONS[resource_type])
