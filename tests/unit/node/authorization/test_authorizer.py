"""The authorizer decides once what a client may do, caches that, and decides again when an ACL changes."""

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import (
    KNOWN_OPERATIONS,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    operation_bits,
)
from ottla.metadata_raft.acl_set import DEFAULT_DENY, AclSet, AuthorizerSettings
from ottla.node.authorization.access import MAX_DECISIONS, Access, AccessDenied
from ottla.node.authorization.authorizer import Authorizer

TOPIC = ResourceType.TOPIC


def acls(*entries: AccessControlEntry) -> AclSet:
    return AclSet().changed({bytes([number]) * 16: entry for number, entry in enumerate(entries)})


def allow(operation: AclOperation, name: str, kind: ResourceType = TOPIC) -> AccessControlEntry:
    allowed = AclPermissionType.ALLOW
    return AccessControlEntry(kind, name, PatternType.LITERAL, "User:ann", "*", operation, allowed)


@pytest.fixture
def authorizer() -> Authorizer:
    authorizer = Authorizer(AuthorizerSettings(super_users=frozenset({"User:root"})))
    authorizer.update(AclSet())
    return authorizer


def test_only_super_users_have_rights_until_the_metadata_is_loaded() -> None:
    authorizer = Authorizer(AuthorizerSettings(frozenset({"User:root"}), allow_everyone_if_no_acl_found=True))
    ann, root = authorizer.access("User:ann", "10.0.0.1"), authorizer.access("User:root", "10.0.0.1")

    assert not ann.allows(AclOperation.WRITE, TOPIC, "t") and not ann.authorized_operations(TOPIC, "t")
    assert not ann.allows_somewhere(AclOperation.WRITE, TOPIC)
    assert root.allows(AclOperation.WRITE, TOPIC, "t") and root.allows_somewhere(AclOperation.WRITE, TOPIC)
    assert root.authorized_operations(TOPIC, "t") == operation_bits(TOPIC)

    authorizer.update(AclSet())
    assert ann.allows(AclOperation.WRITE, TOPIC, "t") and ann.allows_somewhere(AclOperation.WRITE, TOPIC)


def test_connections_of_one_principal_and_address_share_cached_decisions(authorizer: Authorizer) -> None:
    ann = authorizer.access("User:ann", "10.0.0.1")

    assert authorizer.access("User:ann", "10.0.0.1") is ann
    assert authorizer.access("User:ann", "10.0.0.2") is not ann
    assert authorizer.access("User:bob", "10.0.0.1") is not ann


def test_without_acls_only_super_users_have_rights(authorizer: Authorizer) -> None:
    ann, root = authorizer.access("User:ann", "10.0.0.1"), authorizer.access("User:root", "10.0.0.1")

    for kind, operations in KNOWN_OPERATIONS.items():
        assert not any(ann.allows(one, kind, "x") for one in operations)
        assert root.authorized_operations(kind, "x") == operation_bits(kind)


def test_a_decision_is_cached_until_an_acl_changes(authorizer: Authorizer) -> None:
    ann = authorizer.access("User:ann", "10.0.0.1")
    assert not ann.allows(AclOperation.WRITE, TOPIC, "orders") and "orders" not in ann.writes

    authorizer.update(acls(allow(AclOperation.WRITE, "orders")))
    assert ann.allows(AclOperation.WRITE, TOPIC, "orders") and "orders" in ann.writes
    assert ann.allows_somewhere(AclOperation.WRITE, TOPIC)

    authorizer.update(AclSet())
    assert "orders" not in ann.writes
    assert not ann.allows(AclOperation.WRITE, TOPIC, "orders")
    assert not ann.allows_somewhere(AclOperation.WRITE, TOPIC)


def test_the_right_to_read_does_not_imply_the_right_to_write(authorizer: Authorizer) -> None:
    authorizer.update(acls(allow(AclOperation.READ, "orders")))
    ann = authorizer.access("User:ann", "10.0.0.1")

    assert ann.allows(AclOperation.READ, TOPIC, "orders")
    assert ann.allows(AclOperation.DESCRIBE, TOPIC, "orders")
    assert not ann.allows(AclOperation.WRITE, TOPIC, "orders")
    assert ann.writes == set() and ann.transactional_ids == set()


def test_the_right_to_a_transactional_id_is_no_right_to_a_topic_of_that_name(authorizer: Authorizer) -> None:
    authorizer.update(acls(allow(AclOperation.WRITE, "x", ResourceType.TRANSACTIONAL_ID)))
    ann = authorizer.access("User:ann", "10.0.0.1")

    assert ann.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x")
    assert not ann.allows(AclOperation.WRITE, TOPIC, "x")
    assert (ann.writes, ann.transactional_ids) == (set(), {"x"})


def test_the_number_of_cached_decisions_is_bounded(authorizer: Authorizer) -> None:
    authorizer.update(acls(allow(AclOperation.WRITE, "*")))
    ann = authorizer.access("User:ann", "10.0.0.1")

    for number in range(3 * MAX_DECISIONS):
        assert ann.allows(AclOperation.WRITE, TOPIC, f"topic-{number}")
    assert len(ann.writes) <= MAX_DECISIONS


def test_a_denial_names_principal_operation_and_resource(authorizer: Authorizer) -> None:
    ann = authorizer.access("User:ann", "10.0.0.1")

    with pytest.raises(AccessDenied) as denied:
        ann.check(AclOperation.READ, ResourceType.GROUP, "g")
    assert denied.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert denied.value.detail == "User:ann from 10.0.0.1 needs READ permission on GROUP 'g'."


def test_without_an_authorizer_everything_is_allowed() -> None:
    open_access = Access("User:ANONYMOUS", "10.0.0.1")

    assert open_access.is_open and open_access.allows_of_cluster(AclOperation.ALTER)
    assert open_access.authorized_operations(TOPIC, "x") == operation_bits(TOPIC)


def test_a_request_reports_each_denied_resource_once() -> None:
    decisions: list[tuple[object, ...]] = []
    authorizer = Authorizer(AuthorizerSettings(), lambda *one: decisions.append(one))
    authorizer.update(acls(allow(AclOperation.READ, "orders")))
    shared = authorizer.access("User:ann", "10.0.0.1")

    for _ in range(2):  # two requests
        request = shared.of_request("Produce")
        assert not any(request.allows(AclOperation.WRITE, TOPIC, "orders") for _ in range(5))
        assert not request.allows(AclOperation.WRITE, TOPIC, "unseen", log_if_denied=False)
    assert not shared.allows(AclOperation.WRITE, TOPIC, "payments")
    with pytest.raises(AccessDenied):
        shared.of_request("Fetch").check(AclOperation.READ, ResourceType.GROUP, "team")

    of_orders = ("User:ann", "10.0.0.1", "Produce", AclOperation.WRITE, TOPIC, "orders", DEFAULT_DENY)
    of_team = ("User:ann", "10.0.0.1", "Fetch", AclOperation.READ, ResourceType.GROUP, "team", DEFAULT_DENY)
    assert decisions == [of_orders, of_orders, of_team]


def test_new_acls_apply_to_a_request_in_progress(authorizer: Authorizer) -> None:
    authorizer.update(acls(allow(AclOperation.READ, "orders")))
    request = authorizer.access("User:ann", "10.0.0.1").of_request("Fetch")
    assert request.allows(AclOperation.READ, TOPIC, "orders")

    authorizer.update(AclSet())
    assert not request.allows(AclOperation.READ, TOPIC, "orders")
    assert not request.allows_somewhere(AclOperation.READ, TOPIC)


def test_an_allowed_operation_is_reported_only_when_it_is_decided() -> None:
    decisions: list[tuple[object, ...]] = []
    authorizer = Authorizer(AuthorizerSettings(), lambda *one: decisions.append(one))
    authorizer.update(acls(allow(AclOperation.READ, "orders")))
    shared = authorizer.access("User:ann", "10.0.0.1")

    for _ in range(3):
        assert shared.of_request("Fetch").allows(AclOperation.READ, TOPIC, "orders")
    assert [one[:6] for one in decisions] == [
        ("User:ann", "10.0.0.1", "Fetch", AclOperation.READ, TOPIC, "orders")
    ]
