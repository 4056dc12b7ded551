"""ottla.metadata_raft.acl_set: the rules of Apache Kafka's StandardAuthorizer, one test for each.

tests/compat/java/test_authorizer.py compares all of them with Kafka's own class.
"""

from itertools import count

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    operation_bits,
)
from ottla.metadata_raft.acl_set import (
    AclDecision,
    AclSet,
    AuthorizerSettings,
    ClientIdentity,
    DefaultRule,
    check_invariants,
    decide,
    super_users,
)

READ, WRITE, DESCRIBE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALL,
)
TOPIC = ResourceType.TOPIC
ANN = ClientIdentity("User:ann", "10.0.0.1")
CLOSED = AuthorizerSettings()
OPEN = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
OF_ANN = AuthorizerSettings(super_users=frozenset({"User:ann"}))


def allow(
    name: str = "orders",
    operation: AclOperation = READ,
    *,
    principal: str = "User:ann",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    resource_type: ResourceType = TOPIC,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AccessControlEntry:
    return AccessControlEntry(resource_type, name, pattern, principal, host, operation, permission)


def deny(
    name: str = "orders",
    operation: AclOperation = READ,
    *,
    principal: str = "User:ann",
    pattern: PatternType = PatternType.LITERAL,
) -> AccessControlEntry:
    return allow(name, operation, principal=principal, pattern=pattern, permission=AclPermissionType.DENY)


def prefix(name: str, operation: AclOperation = READ) -> AccessControlEntry:
    return allow(name, operation, pattern=PatternType.PREFIXED)


def acl_set(*entries: AccessControlEntry) -> AclSet:
    numbers = count()
    made = AclSet().changed({next(numbers).to_bytes(16): entry for entry in entries})
    check_invariants(made)
    return made


def decided(
    acls: AclSet,
    operation: AclOperation = READ,
    name: str = "orders",
    *,
    client: ClientIdentity = ANN,
    settings: AuthorizerSettings = CLOSED,
) -> AclDecision:
    return acls.decide(client, operation, TOPIC, name, settings)


def decided_by_type(acls: AclSet, settings: AuthorizerSettings = CLOSED) -> AclDecision:
    return acls.decide_by_resource_type(ANN, WRITE, TOPIC, settings)


# ---- super users -------------------------------------------------------------------------------------------


def test_the_setting_of_super_users_is_split_at_semicolons_and_trimmed() -> None:
    assert super_users(" User:ann ; User:CN=bob,O=x;; ") == {"User:ann", "User:CN=bob,O=x"}


def test_a_super_user_without_a_type_is_rejected_with_the_right_notation() -> None:
    with pytest.raises(KafkaError, match="User:ann") as refused:
        super_users("ann")

    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_super_user_is_allowed_even_what_an_entry_denies() -> None:
    decision = decided(acl_set(deny()), settings=OF_ANN)

    assert decision == (True, DefaultRule.SUPER_USER)
    assert decision.rule_text == "SuperUser"


def test_before_the_entries_are_loaded_only_super_users_are_allowed_anything() -> None:
    assert decide(None, ANN, READ, TOPIC, "orders", OF_ANN) == (True, DefaultRule.SUPER_USER)
    assert decide(None, ANN, READ, TOPIC, "orders", OPEN) == (False, DefaultRule.NOT_LOADED)
    assert decide(acl_set(allow()), ANN, READ, TOPIC, "orders", CLOSED).is_allowed


# ---- patterns that match a resource ------------------------------------------------------------------------


def test_a_literal_entry_matches_the_resource_of_its_name() -> None:
    acls = acl_set(allow("orders"))

    assert decided(acls, name="orders") == (True, allow("orders"))
    assert not decided(acls, name="orders2").is_allowed
    assert not decided(acls, name="order").is_allowed


def test_a_prefixed_entry_matches_all_names_with_its_prefix() -> None:
    acls = acl_set(prefix("ord"))

    assert decided(acls, name="ord").is_allowed
    assert decided(acls, name="orders").is_allowed
    assert not decided(acls, name="or").is_allowed
    assert not decided(acls, name="xord").is_allowed


def test_names_are_compared_with_their_case() -> None:
    assert not decided(acl_set(prefix("Ord"), allow("ORDERS"))).is_allowed


def test_a_literal_star_matches_every_resource_of_the_type() -> None:
    acls = acl_set(allow("*"))

    assert decided(acls, name="anything").is_allowed
    assert not acls.decide(ANN, READ, ResourceType.GROUP, "anything", CLOSED).is_allowed


def test_a_prefixed_star_is_a_plain_character() -> None:
    acls = acl_set(prefix("*"))

    assert not decided(acls, name="orders").is_allowed
    assert decided(acls, name="*orders").is_allowed


# ---- principals, hosts, operations -------------------------------------------------------------------------


def test_an_entry_applies_only_to_its_principal() -> None:
    acls = acl_set(allow(principal="User:ann"))

    assert not decided(acls, client=ClientIdentity("User:bob", ANN.host)).is_allowed
    assert not decided(acls, client=ClientIdentity("Group:ann", ANN.host)).is_allowed


def test_an_entry_for_any_user_applies_to_principals_of_every_type() -> None:
    acls = acl_set(allow(principal="User:*"))

    assert decided(acls, client=ClientIdentity("User:bob", ANN.host)).is_allowed
    assert decided(acls, client=ClientIdentity("Group:ann", ANN.host)).is_allowed


def test_an_entry_for_a_host_is_compared_with_the_address_as_text() -> None:
    acls = acl_set(allow(host="10.0.0.1"), allow("audit", host="10.0.0.0/24"))

    assert decided(acls).is_allowed
    assert not decided(acls, client=ClientIdentity("User:ann", "10.0.0.2")).is_allowed
    assert not decided(acls, name="audit").is_allowed


def test_an_entry_for_all_operations_allows_and_denies_each() -> None:
    assert decided(acl_set(allow(operation=ALL)), WRITE).is_allowed
    assert decided(acl_set(allow(operation=WRITE), deny(operation=ALL)), WRITE) == (
        False,
        deny(operation=ALL),
    )


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_read_write_delete_and_alter_imply_describe(operation: AclOperation) -> None:
    assert decided(acl_set(allow(operation=operation)), DESCRIBE) == (True, allow(operation=operation))


@pytest.mark.parametrize(
    "operation",
    [operation for operation in AclOperation if operation not in (ALL, *range(6, 9), READ, WRITE)],
)
def test_no_other_operation_implies_describe(operation: AclOperation) -> None:
    assert not decided(acl_set(allow(operation=operation)), DESCRIBE).is_allowed


def test_alter_configs_implies_describe_configs_and_not_the_other_way_round() -> None:
    altering = acl_set(allow(operation=AclOperation.ALTER_CONFIGS))
    describing = acl_set(allow(operation=AclOperation.DESCRIBE_CONFIGS))

    assert decided(altering, AclOperation.DESCRIBE_CONFIGS).is_allowed
    assert not decided(describing, AclOperation.ALTER_CONFIGS).is_allowed


def test_a_denial_of_read_does_not_deny_describe() -> None:
    acls = acl_set(deny(operation=READ), allow(operation=WRITE))

    assert not decided(acls, READ).is_allowed
    assert decided(acls, DESCRIBE).is_allowed


# ---- the decision ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "denial",
    [
        deny("orders"),
        deny("ord", pattern=PatternType.PREFIXED),
        deny("*"),
        deny("orders", principal="User:*"),
    ],
)
def test_any_entry_that_denies_wins_over_all_that_allow(denial: AccessControlEntry) -> None:
    acls = acl_set(allow("orders"), prefix("orders"), allow("*"), denial)

    assert decided(acls) == (False, denial)


def test_the_most_specific_entry_that_allows_is_the_rule() -> None:
    entries = [allow("orders"), prefix("order"), prefix("ord"), allow("*")]
    for first in range(len(entries)):
        assert decided(acl_set(*entries[first:])) == (True, entries[first])


def test_the_rule_is_written_as_in_kafkas_audit_log() -> None:
    assert decided(acl_set(allow())).rule_text == f"MatchingAcl(acl={allow()})"
    assert decided(acl_set()).rule_text == "DefaultDeny"
    assert decided(acl_set(), settings=OPEN).rule_text == "DefaultAllow"


def test_a_resource_without_entries_is_denied_unless_the_setting_allows_it() -> None:
    acls = acl_set(allow("other"))

    assert decided(acls) == (False, DefaultRule.DENY)
    assert decided(acls, settings=OPEN) == (True, DefaultRule.ALLOW)


@pytest.mark.parametrize(
    "other",
    [allow(principal="User:bob"), allow("*", principal="User:bob"), allow(operation=WRITE, host="1.1.1.1")],
)
def test_an_entry_for_another_principal_overrides_the_setting_that_allows_everyone(
    other: AccessControlEntry,
) -> None:
    assert decided(acl_set(other), settings=OPEN) == (False, DefaultRule.DENY)


# ---- any resource of a type --------------------------------------------------------------------------------


def test_by_type_super_users_and_the_default_allow() -> None:
    assert decided_by_type(acl_set(deny("*", WRITE)), OF_ANN) == (True, DefaultRule.SUPER_USER)
    assert decided_by_type(acl_set(), OPEN) == (True, DefaultRule.ALLOW)
    assert decided_by_type(acl_set(), CLOSED) == (False, DefaultRule.DENY)


def test_by_type_one_resource_that_is_allowed_is_enough() -> None:
    assert decided_by_type(acl_set(allow("a", WRITE))) == (True, allow("a", WRITE))
    assert decided_by_type(acl_set(prefix("a", ALL))) == (True, prefix("a", ALL))
    assert not decided_by_type(acl_set(allow("a", WRITE, resource_type=ResourceType.GROUP))).is_allowed


def test_by_type_no_operation_implies_another() -> None:
    acls = acl_set(allow("a", WRITE))

    assert not acls.decide_by_resource_type(ANN, DESCRIBE, TOPIC, CLOSED).is_allowed


def test_by_type_a_denial_of_every_resource_denies_all() -> None:
    acls = acl_set(allow("a", WRITE), prefix("b", WRITE), deny("*", WRITE))

    assert decided_by_type(acls) == (False, deny("*", WRITE))


def test_by_type_an_entry_for_every_resource_allows_whatever_single_ones_deny() -> None:
    acls = acl_set(allow("*", WRITE), deny("hardcode", WRITE), deny("h", WRITE, pattern=PatternType.PREFIXED))

    assert decided_by_type(acls) == (True, allow("*", WRITE))


def test_by_type_a_resource_that_is_denied_again_does_not_count() -> None:
    literal, longer = deny("a", WRITE), deny("ab", ALL, pattern=PatternType.PREFIXED)

    assert decided_by_type(acl_set(allow("a", WRITE), literal)) == (False, literal)
    assert decided_by_type(acl_set(allow("abc", WRITE), longer)) == (False, longer)
    assert decided_by_type(acl_set(prefix("abc", WRITE), longer)) == (False, longer)


def test_by_type_a_denial_counts_only_if_it_covers_all_that_is_allowed() -> None:
    longer = deny("ab", WRITE, pattern=PatternType.PREFIXED)

    assert decided_by_type(acl_set(allow("a", WRITE), longer)).is_allowed
    assert decided_by_type(acl_set(prefix("a", WRITE), longer)).is_allowed
    assert decided_by_type(acl_set(prefix("ab", WRITE), deny("ab", WRITE))).is_allowed


# ---- operations of a resource ------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [CLOSED, OPEN, OF_ANN])
@pytest.mark.parametrize(
    "acls",
    [
        acl_set(),
        acl_set(allow(operation=WRITE), deny(operation=DESCRIBE)),
        acl_set(allow("*", ALL), deny("ord", READ, pattern=PatternType.PREFIXED)),
        acl_set(allow(principal="User:bob")),
    ],
)
def test_the_authorized_operations_are_those_that_single_checks_allow(
    acls: AclSet, settings: AuthorizerSettings
) -> None:
    found = acls.authorized_operations(ANN, TOPIC, "orders", settings)

    allowed = sum(
        1 << operation
        for operation in AclOperation
        if operation > ALL and decided(acls, operation, settings=settings).is_allowed
    )
    assert found == allowed & operation_bits(TOPIC)


# ---- filters, changes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TOPIC, ResourceType.ANY, ResourceType.GROUP])
@pytest.mark.parametrize("pattern", [one for one in PatternType if one != PatternType.UNKNOWN])
@pytest.mark.parametrize("name", [None, "orders", "ord", "*"])
@pytest.mark.parametrize("principal", [None, "User:ann"])
def test_a_filter_finds_everything_that_it_selects_with_the_indexes(
    kind: ResourceType, pattern: PatternType, name: str | None, principal: str | None
) -> None:
    acls = acl_set(
        *(
            allow(name, operation, principal=principal, pattern=pattern, resource_type=kind)
            for name in ("orders", "ord", "*", "o", "other")
            for operation in (READ, WRITE)
            for principal in ("User:ann", "User:bob")
            for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
            for kind in (TOPIC, ResourceType.GROUP)
        ),
        deny("orders"),
    )
    selected = AclFilter(kind, name, pattern, principal)

    found = list(acls.matching(selected))

    assert sorted(found) == sorted(
        (one, entry) for one, entry in acls.by_id.items() if selected.matches(entry)
    )
    assert len(found) == len(set(found))


def test_a_change_leaves_the_set_before_it_as_it_was() -> None:
    before = acl_set(allow(), prefix("ord"), deny("audit"))

    after = before.changed({(0).to_bytes(16): None, (1).to_bytes(16): None, (9).to_bytes(16): allow("new")})

    check_invariants(before)
    check_invariants(after)
    assert decided(before).is_allowed and not decided(after).is_allowed
    assert decided(after, name="new").is_allowed
    assert (len(before), len(after)) == (3, 2)
    assert before != after
    assert after == acl_set().changed(dict(after.by_id.items()))


def test_a_removed_entry_may_be_added_under_another_id_at_once() -> None:
    before = acl_set(allow())

    after = before.changed({(0).to_bytes(16): None, (1).to_bytes(16): allow()})

    check_invariants(after)
    assert after.ids[allow()] == (1).to_bytes(16)


def test_an_id_that_is_added_and_removed_at_once_changes_nothing() -> None:
    assert acl_set(allow()).changed({(7).to_bytes(16): None}) == acl_set(allow())


@pytest.mark.parametrize(
    "changes",
    [
        {(0).to_bytes(16): allow("other")},
        {(1).to_bytes(16): allow()},
        {(1).to_bytes(16): allow("new"), (2).to_bytes(16): allow("new")},
        {(1).to_bytes(16): allow("new", permission=AclPermissionType.UNKNOWN)},
        {(1).to_bytes(16): allow("new", pattern=PatternType.MATCH)},
        {(1).to_bytes(16): allow("new")._replace(operation=-1)},
    ],
)
def test_changes_that_contradict_the_set_are_corrupt(
    changes: dict[bytes, AccessControlEntry | None],
) -> None:
    with pytest.raises(KafkaError) as refused:
        acl_set(allow()).changed(changes)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_operations_and_types_of_a_later_release_are_kept() -> None:
    later = allow()._replace(operation=77, resource_type=99)

    acls = acl_set(later, allow("a"))

    assert [entry for _, entry in acls.matching(AclFilter(99, "orders"))] == [later]
    assert len(list(acls.matching(AclFilter()))) == 2


def test_a_check_does_not_look_up_more_with_many_entries() -> None:
    many = acl_set(
        *(allow(f"topic-{number:05}") for number in range(2_000)),
        *(allow("orders", principal=f"User:{number}") for number in range(2_000)),
        prefix("ord"),
        prefix("order"),
    )

    assert [pattern.name for pattern, _ in many._standing_for(TOPIC, "orders")] == ["orders", "order", "ord"]
    assert len(list(many._patterns_of(TOPIC, "o" * 1_000))) == 4
