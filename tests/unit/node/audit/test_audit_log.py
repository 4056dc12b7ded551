"""The audit log as its callers see it: events in, lines in the logger and in the file."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.acl_set import DEFAULT_ALLOW, DEFAULT_DENY
from ottla.node.audit import audit_log
from ottla.node.audit.audit_event import Kind
from ottla.node.audit.audit_file import AuditFile
from ottla.node.audit.audit_log import LIMITS, LOGGER, AuditLog
from ottla.node.audit.repeated_events import WINDOW_MS

TIMEOUT_S = 10.0


class Node:
    """An audit log with its file, and a clock that the test advances."""

    def __init__(self, folder: Path, *, max_bytes: int = 10**9) -> None:
        self.path = folder / "audit.log"
        self.now_ms = 1_000_000
        file = AuditFile(self.path, max_bytes=max_bytes, max_files=5)
        self.log = AuditLog(node_id=1, file=file, now_ms=lambda: self.now_ms)
        self.log.open()

    def refuse(self, topic: str = "orders", address: str = "10.0.0.1", principal: str = "User:bob") -> None:
        self.log.log_decision(
            principal, address, "Produce", AclOperation.WRITE, ResourceType.TOPIC, topic, DEFAULT_DENY
        )

    def lines(self) -> list[dict[str, Any]]:
        """Return what is in the file once the node has stopped."""
        self.log.close()
        return self.now_in_file()

    def now_in_file(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.log.close()


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, "the condition does not come true"
        time.sleep(0.005)


def test_the_first_event_is_written_at_once_and_repeated_ones_as_one_more_line(node: Node) -> None:
    node.refuse()
    until(lambda: len(node.now_in_file()) == 1)
    for _ in range(9_999):
        node.refuse()

    assert [(one["kind"], one["count"]) for one in node.lines()] == [("denied", 1), ("denied", 9_999)]
    assert node.log.counts() == {"denied": 10_000, "failed_login": 0, "change": 0}


def test_a_window_that_has_ended_is_logged_with_the_next_event(node: Node) -> None:
    for _ in range(3):
        node.refuse()
    node.now_ms += WINDOW_MS
    node.refuse()

    assert [one["count"] for one in node.lines()] == [1, 2, 1]


def test_a_flood_of_refusals_leaves_no_change_out(node: Node) -> None:
    for number in range(2 * LIMITS[Kind.DENIED].total):
        node.refuse(f"t{number}", address=f"10.1.{number // 250}.{number % 250}")
    node.log.changed("User:admin", "10.0.0.9", "CreateTopics", "Topic", "orders", "NONE")

    lines = node.lines()
    assert [one["resource_name"] for one in lines if one["kind"] == "change"] == ["orders"]
    denied = [one for one in lines if one.get("of", one["kind"]) == "denied"]
    assert sum(one["count"] for one in denied) == 2 * LIMITS[Kind.DENIED].total
    assert len(denied) <= LIMITS[Kind.DENIED].total + 101


def test_the_logger_has_the_same_lines(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        node.refuse()
        node.log.failed_login("ann", "10.0.0.1", "SASL_SSL", "PLAIN", "wrong user or password")
        node.log.close()

    assert [record.name for record in caplog.records] == [LOGGER, LOGGER]
    assert caplog.messages[0].startswith("Principal = User:bob is Denied operation = WRITE")


def test_allowed_requests_are_logged_only_at_debug(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    def allow(topic: str) -> None:
        node.log.log_decision(
            "User:ann", "10.0.0.1", "Fetch", AclOperation.READ, ResourceType.TOPIC, topic, DEFAULT_ALLOW
        )

    with caplog.at_level(logging.INFO, LOGGER):
        allow("unseen")
    with caplog.at_level(logging.DEBUG, LOGGER):
        allow("seen")
        assert node.lines() == []

    (message,) = caplog.messages
    assert message.startswith("Principal = User:ann is Allowed operation = READ") and ":seen " in message


def test_without_a_file_and_a_logger_events_are_only_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog()
    with caplog.at_level(logging.WARNING, LOGGER):
        log.changed("User:ANONYMOUS", "10.0.0.1", "CreateTopics", "Topic", "orders", "NONE")
    log.close()

    assert log.counts()["change"] == 1 and not caplog.messages


@pytest.mark.parametrize(("level", "is_logged"), [(logging.INFO, False), (logging.DEBUG, True)])
def test_changes_are_logged_at_debug_on_a_node_that_does_not_know_its_clients(
    caplog: pytest.LogCaptureFixture, level: int, is_logged: bool
) -> None:
    log = AuditLog(knows_clients=False)
    with caplog.at_level(level, LOGGER):
        log.failed_login("", "10.0.0.1", "SSL", "SSL", "no certificate")
        log.changed("User:ANONYMOUS", "10.0.0.1", "CreateTopics", "Topic", "orders", "NONE")
        log.close()

    login, *changes = caplog.messages
    assert "failed to log in" in login
    assert ["request = CreateTopics" in one for one in changes] == [True] * is_logged


def test_a_file_that_cannot_be_written_is_logged_once_and_its_lines_are_counted(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.refuse("first")
    until(lambda: len(node.now_in_file()) == 1)
    folder = node.path.parent
    node.path.unlink()
    folder.rename(folder.with_name("gone"))

    for number in range(5):
        node.refuse(f"lost-{number}")
        until(lambda number=number: node.log.lost_lines == number + 1)  # type: ignore[misc]
    folder.with_name("gone").rename(folder)
    node.refuse("again")

    found = node.lines()
    assert [(one["kind"], one["count"]) for one in found] == [("lost", 5), ("denied", 1)]
    assert found[1]["resource_name"] == "again"
    logged = [record for record in caplog.records if record.name == audit_log.__name__]
    assert [record.levelname for record in logged] == ["ERROR", "WARNING"]
    assert "cannot be written: No such file or directory" in logged[0].getMessage()


def test_lines_that_wait_for_a_slow_disk_are_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    really, is_slow, may_proceed = AuditFile.write, threading.Event(), threading.Event()

    def write(file: AuditFile, lines: Sequence[bytes]) -> int:
        is_slow.set()
        may_proceed.wait(TIMEOUT_S)
        return really(file, lines)

    monkeypatch.setattr(audit_log, "MAX_WAITING", 10)
    monkeypatch.setattr(AuditFile, "write", write)
    node.refuse("first")
    assert is_slow.wait(TIMEOUT_S)
    for number in range(50):
        node.refuse(f"t{number}")
    may_proceed.set()

    found = node.lines()
    assert node.log.lost_lines == 40
    assert [one["count"] for one in found if one["kind"] == "lost"] == [40]
    assert len([one for one in found if one["kind"] == "denied"]) == 11


def test_changes_get_lines_if_a_file_or_the_logger_takes_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = AuditFile(tmp_path / "audit.log", max_bytes=10_000, max_files=2)

    with caplog.at_level(logging.INFO, LOGGER):
        assert AuditLog(knows_clients=True).takes_changes
        assert not AuditLog(knows_clients=False).takes_changes
        assert AuditLog(knows_clients=False, file=file).takes_changes
    with caplog.at_level(logging.WARNING, LOGGER):
        assert not AuditLog(knows_clients=True).takes_changes
