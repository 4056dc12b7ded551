"""The lines of the audit log."""

import json

import pytest

from ottla.metadata_raft.acl import AccessControlEntry, AclOperation, AclPermissionType, ResourceType
from ottla.metadata_raft.acl_set import DEFAULT_DENY, AclDecision
from ottla.node.audit.audit_event import (
    MAX_DETAIL_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    Change,
    FailedLogin,
    Kind,
    access_decision,
    cut,
)
from ottla.node.audit.audit_line import escaped, lost_object, object_of, text_of
from ottla.node.audit.repeated_events import SEVERAL, EventLine, LeftOutLine, Source

NOON_MS = 1_796_472_000_123
TOPIC = ResourceType.TOPIC


def refused(name: str = "orders", decision: AclDecision = DEFAULT_DENY) -> EventLine:
    event = access_decision("User:bob", "10.0.0.1", "Produce", AclOperation.WRITE, TOPIC, name, decision)
    return EventLine(event, 1, NOON_MS, NOON_MS)


def test_a_refusal_reads_as_in_kafkas_log() -> None:
    assert text_of(refused()) == (
        "Principal = User:bob is Denied operation = WRITE from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:orders for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
    )


def test_a_rule_is_the_entry_that_decided() -> None:
    entry = AccessControlEntry(
        TOPIC, "orders", 3, "User:bob", "*", AclOperation.WRITE, AclPermissionType.DENY
    )

    assert text_of(refused(decision=AclDecision(False, entry))).endswith(
        "based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=orders, "
        "patternType=LITERAL, principal=User:bob, host=*, operation=WRITE, permissionType=DENY])"
    )


def test_a_line_of_the_file_is_a_json_object() -> None:
    line = refused()._replace(events=40, first_ms=NOON_MS - 5_000)

    assert json.loads(object_of(line, 3)) == {
        "time": "2026-12-05T12:00:00.123Z",
        "node": 3,
        "kind": "denied",
        "principal": "User:bob",
        "address": "10.0.0.1",
        "api": "Produce",
        "operation": "WRITE",
        "resource_type": "Topic",
        "resource_name": "orders",
        "rule": "DefaultDeny",
        "count": 40,
        "first": "2026-12-05T11:59:55.123Z",
    }


def test_failed_logins_and_changes_are_written_as_text_and_json() -> None:
    login = FailedLogin("ann", "10.0.0.1", "SASL_SSL", "PLAIN", "wrong user or password")
    change = Change("User:admin", "10.0.0.9", "CreateTopics", "Topic", "orders", "", "NONE")

    assert text_of(EventLine(login, 2, 0, 1)) == (
        "User = ann failed to log in by mechanism = PLAIN from host = 10.0.0.1 on listener = SASL_SSL: "
        "wrong user or password (2 times)"
    )
    assert text_of(EventLine(change._replace(detail="retention.ms"), 1, 0, 0)) == (
        "Principal = User:admin from host = 10.0.0.9 asked for a change of resource = Topic:orders "
        "(retention.ms) by request = CreateTopics with outcome = NONE"
    )
    assert json.loads(object_of(EventLine(change, 1, 0, 0), 0)) == {
        "time": "1970-01-01T00:00:00.000Z",
        "node": 0,
        "kind": "change",
        **change._asdict(),
        "count": 1,
    }


def test_events_that_are_left_out_or_lost_are_counted() -> None:
    assert text_of(LeftOutLine(Kind.DENIED, Source("User:a\nb", "10.0.0.1"), 900, 0)) == (
        "900 more events of kind = denied by principal = User:a\\nb from host = 10.0.0.1 are left out"
    )
    assert text_of(LeftOutLine(Kind.FAILED_LOGIN, Source("", "10.0.0.1"), 900, 0)) == (
        "900 more events of kind = failed_login from host = 10.0.0.1 are left out"
    )
    document = json.loads(object_of(LeftOutLine(Kind.DENIED, SEVERAL, 900, 0), 0))
    assert (document["kind"], document["of"], document["count"]) == ("left_out", "denied", 900)
    assert (document["principal"], document["address"]) == (None, None)
    assert json.loads(lost_object(7, 0, 0))["count"] == 7


@pytest.mark.parametrize(
    "hostile", ["a\nPrincipal = User:root is Allowed", "a\x1b[2J", "a\u202eb", "a\u2028b", "\ud800"]
)
def test_no_name_ends_a_line_or_moves_a_cursor(hostile: str) -> None:
    line = refused(hostile)

    text, content = text_of(line), object_of(line, 0)
    assert text.isprintable() and text.count("Principal = ") <= 2
    assert (
        content.count(b"\n") == 1 and content.endswith(b"\n") and content[:-1].decode("ascii").isprintable()
    )
    assert json.loads(content)["resource_name"] == hostile


def test_escapes_are_distinct_from_texts_that_look_like_them() -> None:
    assert escaped("a\nb") == "a\\nb" and escaped("a\\nb") == "a\\\\nb"
    assert escaped("größe") == "größe"


def test_texts_are_bounded() -> None:
    event = access_decision(
        "User:" + "u" * 3_000, "h" * 3_000, "Fetch", AclOperation.READ, TOPIC, "n" * 3_000, DEFAULT_DENY
    )

    assert max(len(one) for one in event if isinstance(one, str)) == MAX_TEXT_CHARACTERS
    assert len(object_of(EventLine(event, 1, 0, 0), 0)) < 6 * MAX_TEXT_CHARACTERS + 2 * MAX_DETAIL_CHARACTERS
    assert cut("x" * 10, 10) == "x" * 10 and cut("x" * 11, 10) == "x" * 7 + "..."
