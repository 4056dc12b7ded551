"""Decides by access control entries whether an operation is allowed, as Kafka's StandardAuthorizer does.

An `AclSet` is immutable; a changed one shares its memory. A check looks up the literal name, the prefixes of
the name in the lengths that entries have, and `*`; and in each of these the client's principal and `User:*`,
at the client's host and at all hosts. So its work grows with the length of names, not with the number of
entries.

Super users and `allow.everyone.if.no.acl.found` are settings of a node, so they are arguments of each check.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    ANY_USER,
    KNOWN_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from ottla.metadata_raft.persistent_map import PersistentMap

_PERMISSIONS: Final = (AclPermissionType.DENY, AclPermissionType.ALLOW)
_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_DENIED_SHIFT: Final = 128  # above the bits of allowed operations: the number of an operation is an int8


class AuthorizerSettings(NamedTuple):
    """The settings of a node that decide where no entry applies."""

    super_users: frozenset[str] = frozenset()  # as `Type:name`
    allow_everyone_if_no_acl_found: bool = False


class DefaultRule(Enum):
    """The rule that allows or denies an operation without an entry, in the words of Kafka's audit log."""

    SUPER_USER = "SuperUser"
    ALLOW = "DefaultAllow"
    DENY = "DefaultDeny"
    NOT_LOADED = "NotLoaded"  # the metadata of this node has not been read yet
    NO_AUTHORIZER = "NoAuthorizer"  # the cluster itself may be changed only from the hosts of its nodes


class AclDecision(NamedTuple):
    """The result of a check: allowed or not, with the rule that decided."""

    is_allowed: bool
    rule: AccessControlEntry | DefaultRule

    @property
    def rule_text(self) -> str:
        """The rule, in the format of Kafka's audit log."""
        if isinstance(self.rule, DefaultRule):
            return self.rule.value
        return f"MatchingAcl(acl={self.rule})"


class ClientIdentity(NamedTuple):
    """A client: its principal as `Type:name`, and the numeric address of its host."""

    principal: str
    host: str


class Pattern(NamedTuple):
    """A pattern of names, which matches the resources that an entry applies to."""

    resource_type: int
    pattern_type: int
    name: str


# The entries of one pattern, by principal and host: bit n is set if operation n is allowed, and
# bit _DENIED_SHIFT + n if it is denied.
_Bits: TypeAlias = PersistentMap[ClientIdentity, int]
_NO_BITS: Final[_Bits] = PersistentMap()
# By type, principal, host and operation: the patterns that allow it.
_AllowedKey: TypeAlias = tuple[int, str, str, int]
_Allowed: TypeAlias = PersistentMap[_AllowedKey, PersistentMap[Pattern, bool]]

SUPER_USER: Final = AclDecision(True, DefaultRule.SUPER_USER)
DEFAULT_ALLOW: Final = AclDecision(True, DefaultRule.ALLOW)
DEFAULT_DENY: Final = AclDecision(False, DefaultRule.DENY)
NOT_LOADED: Final = AclDecision(False, DefaultRule.NOT_LOADED)
NO_AUTHORIZER: Final = AclDecision(False, DefaultRule.NO_AUTHORIZER)


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in {AclOperation.ALL, *operations})


# Operation -> the operations of which an entry must allow one; a denial implies no other operation.
_ALLOWING: Final = {one: _bits(one) for one in AclOperation if one >= AclOperation.ALL} | {
    AclOperation.DESCRIBE: _bits(
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: _bits(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
_DENYING: Final = {
    operation: (1 << operation | 1 << AclOperation.ALL) << _DENIED_SHIFT
    for operation in AclOperation
    if operation >= AclOperation.ALL
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclSet:
    """All access control entries, built by `changed`."""

    by_id: PersistentMap[bytes, AccessControlEntry] = field(default_factory=PersistentMap)
    ids: PersistentMap[AccessControlEntry, bytes] = field(default_factory=PersistentMap, compare=False)
    _patterns: PersistentMap[Pattern, _Bits] = field(default_factory=PersistentMap, compare=False)
    _allowed: _Allowed = field(default_factory=PersistentMap, compare=False)
    # By type: the number of prefixes of each length, longest first.
    _lengths: Mapping[int, Mapping[int, int]] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.by_id)

    def changed(self, changes: Mapping[bytes, AccessControlEntry | None]) -> "AclSet":
        """Return the set with these entries added, and without the ids whose new value is None.

        CORRUPT_MESSAGE if two entries would share an id, if an entry would have two ids, or if an entry
        neither allows nor denies: no controller writes such an entry, and skipping it could allow what it
        denies.
        """
        if not changes:
            return self
        gone = [self.by_id.get(entry_id) for entry_id, new in changes.items() if new is None]
        removed = {entry: None for entry in gone if entry is not None}
        added = {new: entry_id for entry_id, new in changes.items() if new is not None}
        ids: dict[AccessControlEntry, bytes | None] = {**removed, **added}
        for entry, entry_id in added.items():
            if entry_id in self.by_id or (entry in self.ids and entry not in removed):
                raise _corrupt(entry_id, "already exists, or an equal one does")
            if (
                entry.permission_type not in _PERMISSIONS
                or entry.pattern_type not in _PATTERN_TYPES
                or not 0 <= entry.operation < _DENIED_SHIFT
            ):
                raise _corrupt(entry_id, "neither allows nor denies an operation on a name or a prefix")
        if len(added) + len(gone) != len(changes):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "Two added access control entries are the same.")
        patterns, allowed = self._changed_indexes(removed, added)
        after = self._patterns.changed(patterns)
        return AclSet(
            by_id=self.by_id.changed(changes),
            ids=self.ids.changed(ids),
            _patterns=after,
            _allowed=self._allowed.changed(allowed),
            _lengths=self._changed_lengths(patterns, after),
        )

    def decide(
        self,
        client: ClientIdentity,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        settings: AuthorizerSettings,
    ) -> AclDecision:
        """Return the decision on this operation of the client on the resource of this name.

        Any denial wins. The returned rule is of the most specific pattern: the literal name, then the longest
        prefix, at last `*`.
        """
        if client.principal in settings.super_users:
            return SUPER_USER
        identities = _entry_identities(client)
        denying, allowing = _DENYING[operation], _ALLOWING[operation]
        has_entries, decision = False, None
        for pattern, bits in self._standing_for(resource_type, name):
            has_entries = True
            for one in identities:
                found = bits.get(one) or 0
                if found & denying:
                    return _decision(pattern, bits, identities, denying)
                if decision is None and found & allowing:
                    decision = _decision(pattern, bits, identities, allowing)
        if decision is not None:
            return decision
        return DEFAULT_DENY if has_entries else _default(settings)

    def decide_by_resource_type(
        self,
        client: ClientIdentity,
        operation: AclOperation,
        resource_type: ResourceType,
        settings: AuthorizerSettings,
    ) -> AclDecision:
        """Return the decision on this operation of the client on at least one resource of the type.

        As in Kafka, no operation implies another one here. If several patterns allow it, any of them is
        returned as the rule. The work grows with the patterns that allow the operation and that others deny
        again.
        """
        first = self.decide(client, operation, resource_type, "hardcode", settings)
        if first.is_allowed:
            return first
        identities = _entry_identities(client)
        denying = _DENYING[operation]
        allowing = denying >> _DENIED_SHIFT
        every = Pattern(resource_type, PatternType.LITERAL, WILDCARD)
        bits = self._patterns.get(every) or _NO_BITS
        combined = _combined(bits, identities)
        if combined & (denying | allowing):
            return _decision(every, bits, identities, combined & denying or combined & allowing)
        denial = None
        for one in identities:
            for each in (operation, AclOperation.ALL):
                patterns = self._allowed.get((resource_type, one.principal, one.host, each))
                for pattern in patterns or ():
                    denied = self._denied(pattern, identities, denying)
                    if denied is None:
                        return _decision(pattern, self._patterns[pattern], identities, allowing)
                    denial = denial or denied
        return denial or DEFAULT_DENY

    def authorized_operations(
        self, client: ClientIdentity, resource_type: ResourceType, name: str, settings: AuthorizerSettings
    ) -> int:
        """Return the operations allowed to the client on the resource, as in a response: bit n for n."""
        known = KNOWN_OPERATIONS[resource_type]
        if client.principal in settings.super_users:
            return sum(1 << operation for operation in known)
        identities = _entry_identities(client)
        has_entries, combined = False, 0
        for _, bits in self._standing_for(resource_type, name):
            has_entries = True
            combined |= _combined(bits, identities)
        if not has_entries and settings.allow_everyone_if_no_acl_found:
            return sum(1 << operation for operation in known)
        return sum(
            1 << operation
            for operation in known
            if combined & _ALLOWING[operation] and not combined & _DENYING[operation]
        )

    def matching(self, selected: AclFilter) -> Iterator[tuple[bytes, AccessControlEntry]]:
        """Yield the entries that a filter selects, with their ids, in no particular order.

        A filter without a name or a type is compared with every entry, as the caller iterates.
        """
        if selected.resource_name is None or selected.resource_type == ResourceType.ANY:
            for entry_id, entry in self.by_id.items():
                if selected.matches(entry):
                    yield entry_id, entry
            return
        for pattern in self._selected_patterns(selected, selected.resource_name):
            for entry in _entries(pattern, self._patterns.get(pattern) or _NO_BITS):
                if selected.matches(entry):
                    yield self.ids[entry], entry

    def pattern_count(self, selected: AclFilter) -> int:
        """Return the maximal number of patterns that a filter with a type and a name looks up."""
        if selected.pattern_type != PatternType.MATCH:
            return len(_PATTERN_TYPES)
        return len(self._lengths.get(selected.resource_type, ())) + len(_PATTERN_TYPES)

    # ---- patterns --------------------------------------------------------------------------------------

    def _standing_for(self, resource_type: int, name: str) -> Iterator[tuple[Pattern, _Bits]]:
        """Yield the patterns in use that match a resource, most specific first, with their bits."""
        for pattern in self._patterns_of(resource_type, name):
            bits = self._patterns.get(pattern)
            if bits is not None:
                yield pattern, bits

    def _patterns_of(self, resource_type: int, name: str) -> Iterator[Pattern]:
        """Yield the patterns that could match a resource, most specific first."""
        yield Pattern(resource_type, PatternType.LITERAL, name)
        yield from self._prefixes(resource_type, name)
        if name != WILDCARD:
            yield Pattern(resource_type, PatternType.LITERAL, WILDCARD)

    def _prefixes(self, resource_type: int, name: str) -> Iterator[Pattern]:
        """Yield the prefixes of a name, in the lengths that prefixes of entries of the type have."""
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield Pattern(resource_type, PatternType.PREFIXED, name[:length])

    def _denied(
        self, pattern: Pattern, identities: Sequence[ClientIdentity], denying: int
    ) -> AclDecision | None:
        """Return the decision that denies everything that a pattern matches, if there is one."""
        prefixes = self._prefixes(pattern.resource_type, pattern.name)
        literal = (pattern,) if pattern.pattern_type == PatternType.LITERAL else ()
        for each in (*literal, *prefixes):
            bits = self._patterns.get(each) or _NO_BITS
            if _combined(bits, identities) & denying:
                return _decision(each, bits, identities, denying)
        return None

    def _selected_patterns(self, selected: AclFilter, name: str) -> Iterator[Pattern]:
        """Yield the patterns that a filter with a type and a name may select."""
        kind = selected.resource_type
        if selected.pattern_type == PatternType.MATCH:
            yield from self._patterns_of(kind, name)
        else:
            yield Pattern(kind, PatternType.LITERAL, name)
            yield Pattern(kind, PatternType.PREFIXED, name)

    # ---- changes ---------------------------------------------------------------------------------------

    def _changed_indexes(
        self, removed: Mapping[AccessControlEntry, None], added: Mapping[AccessControlEntry, bytes]
    ) -> tuple[dict[Pattern, _Bits | None], dict[_AllowedKey, PersistentMap[Pattern, bool] | None]]:
        """Return the changes of `_patterns` and of `_allowed`."""
        bits: dict[Pattern, dict[ClientIdentity, int | None]] = {}
        allowed: dict[_AllowedKey, dict[Pattern, bool | None]] = {}
        # Removed entries first: an equal entry may be added under another id.
        for entry, stays in (*((one, False) for one in removed), *((one, True) for one in added)):
            pattern, identity = _pattern(entry), ClientIdentity(entry.principal, entry.host)
            of_pattern = bits.setdefault(pattern, {})
            if identity not in of_pattern:
                of_pattern[identity] = (self._patterns.get(pattern) or _NO_BITS).get(identity)
            old = of_pattern[identity] or 0
            bit = _bit(entry)
            of_pattern[identity] = (old | bit if stays else old & ~bit) or None
            if entry.permission_type == AclPermissionType.ALLOW:
                key = (entry.resource_type, entry.principal, entry.host, entry.operation)
                allowed.setdefault(key, {})[pattern] = stays or None
        return (
            {
                pattern: (self._patterns.get(pattern) or _NO_BITS).changed(changes) or None
                for pattern, changes in bits.items()
            },
            {
                key: (self._allowed.get(key) or PersistentMap[Pattern, bool]()).changed(changes) or None
                for key, changes in allowed.items()
            },
        )

    def _changed_lengths(
        self, changes: Mapping[Pattern, _Bits | None], after: PersistentMap[Pattern, _Bits]
    ) -> Mapping[int, Mapping[int, int]]:
        lengths: dict[int, dict[int, int]] = {}
        for pattern in changes:
            difference = (pattern in after) - (pattern in self._patterns)
            if difference and pattern.pattern_type == PatternType.PREFIXED:
                kind = pattern.resource_type
                counts = lengths.setdefault(kind, dict(self._lengths.get(kind, {})))
                counts[len(pattern.name)] = counts.get(len(pattern.name), 0) + difference
        if not lengths:
            return self._lengths
        return {
            **self._lengths,
            **{
                kind: {length: counts[length] for length in sorted(counts, reverse=True) if counts[length]}
                for kind, counts in lengths.items()
            },
        }


def decide(
    acls: AclSet | None,
    client: ClientIdentity,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    settings: AuthorizerSettings,
) -> AclDecision:
    """Return the decision of `AclSet.decide`; before the metadata is loaded, allow super users only."""
    if acls is not None:
        return acls.decide(client, operation, resource_type, name, settings)
    return SUPER_USER if client.principal in settings.super_users else NOT_LOADED


def super_users(setting: str) -> frozenset[str]:
    """Parse the setting `super.users`, principals separated by `;`; INVALID_CONFIG if a part is not one."""
    names = [name for part in setting.split(";") if (name := part.strip())]
    for name in names:
        if ":" not in name:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"super.users has {name!r}, which is not a principal. Write it as User:{name}.",
            )
    return frozenset(names)


def check_invariants(acls: AclSet) -> None:
    """Assert the invariants of a set; for tests."""
    entries = dict(acls.by_id.items())
    assert len(acls.by_id) == len(acls.ids) == len(entries) == len(set(entries.values()))
    assert dict(acls.ids.items()) == {entry: entry_id for entry_id, entry in entries.items()}
    found = {entry for pattern, bits in acls._patterns.items() for entry in _entries(pattern, bits)}
    assert found == set(entries.values())
    assert all(len(bits) and all(value for _, value in bits.items()) for _, bits in acls._patterns.items())
    allowed = {
        AccessControlEntry(kind, *_named(pattern), principal, host, operation, AclPermissionType.ALLOW)
        for (kind, principal, host, operation), patterns in acls._allowed.items()
        for pattern in patterns
    }
    assert allowed == {entry for entry in found if entry.permission_type == AclPermissionType.ALLOW}
    for kind, counts in acls._lengths.items():
        prefixes = [
            len(pattern.name)
            for pattern in acls._patterns
            if pattern.resource_type == kind and pattern.pattern_type == PatternType.PREFIXED
        ]
        assert dict(counts) == {length: prefixes.count(length) for length in prefixes}
        assert list(counts) == sorted(counts, reverse=True)


def _corrupt(entry_id: bytes, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The access control entry {entry_id.hex()} {reason}.")


def _entry_identities(client: ClientIdentity) -> tuple[ClientIdentity, ...]:
    """Return the principals and hosts of entries that apply to the client."""
    principal, host = client
    return (
        client,
        ClientIdentity(principal, WILDCARD),
        ClientIdentity(ANY_USER, host),
        ClientIdentity(ANY_USER, WILDCARD),
    )


def _combined(bits: _Bits, identities: Sequence[ClientIdentity]) -> int:
    combined = 0
    for one in identities:
        combined |= bits.get(one) or 0
    return combined


def _default(settings: AuthorizerSettings) -> AclDecision:
    return DEFAULT_ALLOW if settings.allow_everyone_if_no_acl_found else DEFAULT_DENY


def _decision(
    pattern: Pattern, bits: _Bits, identities: Sequence[ClientIdentity], wanted: int
) -> AclDecision:
    """Return the decision of the first entry of a pattern with a wanted bit: by operation, then principal."""
    found = [(bit, one) for one in identities if (bit := (bits.get(one) or 0) & wanted)]
    bit, identity = min(((bit & -bit).bit_length() - 1, one) for bit, one in found)
    return AclDecision(bit < _DENIED_SHIFT, _entry(pattern, identity, bit))


def _pattern(entry: AccessControlEntry) -> Pattern:
    return Pattern(entry.resource_type, entry.pattern_type, entry.resource_name)


def _named(pattern: Pattern) -> tuple[str, int]:
    return pattern.name, pattern.pattern_type


def _bit(entry: AccessControlEntry) -> int:
    shift = _DENIED_SHIFT if entry.permission_type == AclPermissionType.DENY else 0
    return 1 << entry.operation << shift


def _entry(pattern: Pattern, identity: ClientIdentity, bit: int) -> AccessControlEntry:
    is_denied = bit >= _DENIED_SHIFT
    return AccessControlEntry(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        identity.principal,
        identity.host,
        bit - _DENIED_SHIFT if is_denied else bit,
        AclPermissionType.DENY if is_denied else AclPermissionType.ALLOW,
    )


def _entries(pattern: Pattern, by_identity: _Bits) -> Iterator[AccessControlEntry]:
    """Yield the entries of a pattern."""
    for identity, bits in by_identity.items():
        rest = bits
        while rest:
            bit = (rest & -rest).bit_length() - 1
            rest &= rest - 1
            yield _entry(pattern, identity, bit)
