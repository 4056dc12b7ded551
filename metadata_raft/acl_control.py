"""Decides which access control entries are created, and which ones filters remove (KIP-801)."""

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    check_lengths,
    word,
)
from ottla.metadata_raft.commands import (
    AclFields,
    AclFilterFields,
    CreateAcls,
    CreateAclsReply,
    DeleteAcls,
    DeleteAclsReply,
    DeletedAcls,
    NewAcl,
    ResourceResult,
)
from ottla.metadata_raft.controller_config import (
    MAX_ACL_COMPARISONS_PER_COMMAND,
    MAX_ACL_PATTERNS_PER_COMMAND,
    MAX_ACLS,
    MAX_RECORDS_PER_COMMAND,
)
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.feature_control import check_security_version
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)

_UNNAMED = ("UNKNOWN", "ANY")


def create_acls(image: MetadataImage, command: CreateAcls) -> Decision:
    """Decide new entries, each by itself; an entry that exists, or that is given twice, succeeds."""
    check_security_version(image, "ACLs")
    made: dict[AccessControlEntry, bytes] = {}
    ids: set[bytes] = set()
    results = []
    for new in command.creations:
        try:
            entry = _checked_entry(new)
            if entry not in image.acls.ids and entry not in made:
                if len(image.acls) + len(made) >= MAX_ACLS:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION,
                        f"The cluster may have at most {MAX_ACLS} ACLs: remove some, or use prefixed ones.",
                    )
                if new.id in ids or new.id in image.acls.by_id:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Another ACL has this id: try again.")
                made[entry] = new.id
                ids.add(new.id)
            results.append(ResourceResult())
        except KafkaError as error:
            results.append(ResourceResult(error_code=error.code, error_message=error.detail))
    records: list[MetadataRecord] = [
        AccessControlEntryRecord(id=entry_id, **entry._asdict()) for entry, entry_id in made.items()
    ]
    return Decision(records=records, reply=CreateAclsReply(results=results))


def delete_acls(image: MetadataImage, command: DeleteAcls) -> Decision:
    """Decide removals; the result of a filter has all entries that it matches, even if another one does, too.

    INVALID_REQUEST for all filters if they match too many entries.
    """
    check_security_version(image, "ACLs")
    removed: dict[bytes, None] = {}
    matched = comparisons = patterns = 0
    results = []
    for fields in command.filters:
        try:
            selected = checked_filter(fields)
        except KafkaError as error:
            results.append(DeletedAcls(error_code=error.code, error_message=error.detail))
            continue
        if selected.resource_name is None or selected.resource_type == ResourceType.ANY:
            comparisons += len(image.acls)
            if comparisons > max(MAX_ACL_COMPARISONS_PER_COMMAND, len(image.acls)):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Too many filters without a resource type or a resource name: send them one by one.",
                )
        else:
            count = image.acls.pattern_count(selected)
            patterns += count
            # A single filter is always carried out.
            if patterns > max(MAX_ACL_PATTERNS_PER_COMMAND, count):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "These filters match too many prefixed ACLs: send fewer filters in one request.",
                )
        matching = []
        for entry_id, entry in image.acls.matching(selected):
            matched += 1
            if matched > MAX_RECORDS_PER_COMMAND:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Cannot remove more than {MAX_RECORDS_PER_COMMAND} acls in a single delete operation.",
                )
            removed[entry_id] = None
            matching.append(entry)
        results.append(DeletedAcls(matching=[AclFields(**entry._asdict()) for entry in sorted(matching)]))
    records: list[MetadataRecord] = [RemoveAccessControlEntryRecord(id=one) for one in sorted(removed)]
    return Decision(records=records, reply=DeleteAclsReply(results=results))


def checked_filter(fields: AclFilterFields) -> AclFilter:
    """Return the filter of a request; INVALID_REQUEST if it has numbers that this release does not know."""
    selected = AclFilter(
        fields.resource_type,
        fields.resource_name,
        fields.pattern_type,
        fields.principal,
        fields.host,
        fields.operation,
        fields.permission_type,
    )
    if "UNKNOWN" in (word(ResourceType, selected.resource_type), word(PatternType, selected.pattern_type)):
        raise _invalid("Unknown patternFilter.")
    words = word(AclOperation, selected.operation), word(AclPermissionType, selected.permission_type)
    if "UNKNOWN" in words:
        raise _invalid("Unknown entryFilter.")
    check_lengths(selected)
    return selected


def _checked_entry(new: NewAcl) -> AccessControlEntry:
    """Return the entry to create; INVALID_REQUEST if it is not valid."""
    kind, pattern = word(ResourceType, new.resource_type), word(PatternType, new.pattern_type)
    operation = word(AclOperation, new.operation)
    permission = word(AclPermissionType, new.permission_type)
    if new.resource_type == ResourceType.CLUSTER and new.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not new.resource_name:
        raise _invalid("Invalid empty resource name")
    for name, found, is_valid in (
        ("resourceType", kind, kind not in _UNNAMED),
        ("patternType", pattern, pattern in ("LITERAL", "PREFIXED")),
        ("operation", operation, operation not in _UNNAMED),
        ("permissionType", permission, permission not in _UNNAMED),
    ):
        if not is_valid:
            raise _invalid(f"Invalid {name} {found}")
    if ":" not in new.principal:
        raise _invalid(
            f"Could not parse principal from `{new.principal[:200]}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    entry = AccessControlEntry(
        new.resource_type,
        new.resource_name,
        new.pattern_type,
        new.principal,
        new.host,
        new.operation,
        new.permission_type,
    )
    check_lengths(entry)
    return entry


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
