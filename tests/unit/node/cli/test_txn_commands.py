"""The transactions that count as hanging, and the output of `ottla txn`."""

import json

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli import txn_tables
from ottla.node.client import txn_as_json
from ottla.node.client.hanging_transactions import (
    OpenTransaction,
    open_for_long,
    still_open,
    without_coordinator,
)
from ottla.node.client.txn_admin import ListedTransaction, ProducerView, TransactionView
from ottla.node.client.txn_as_json import UNKNOWN

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOW_MS, LONG_MS = 1_000_000, 900_000
OPEN = ProducerView(7, 3, 12, NOW_MS - LONG_MS - 1, 5, 40)
VIEW = TransactionView("t", "Ongoing", 7, 3, 60_000, NOW_MS - 12_300, [A0], "h:9092")


@pytest.mark.parametrize(
    ("producer", "is_found"),
    [
        (OPEN, True),
        (OPEN._replace(last_timestamp_ms=NOW_MS - LONG_MS), False),
        (OPEN._replace(start_offset=None), False),
        (OPEN._replace(start_offset=0), True),
    ],
)
def test_only_a_transaction_without_records_for_too_long_is_found(
    producer: ProducerView, is_found: bool
) -> None:
    found = open_for_long({A0: [producer]}, now_ms=NOW_MS, longer_than_ms=LONG_MS)

    assert found == ([OpenTransaction(A0, producer)] if is_found else [])


@pytest.mark.parametrize(
    ("transactions", "hangs"),
    [
        ({}, True),
        ({8: VIEW}, True),
        ({7: VIEW}, False),
        ({7: VIEW._replace(state="PrepareAbort")}, False),  # its marker is being written
        ({7: VIEW._replace(partitions=[A1])}, True),
        ({7: VIEW._replace(state="CompleteCommit", partitions=[])}, True),
    ],
)
def test_an_open_transaction_hangs_if_no_coordinator_has_its_partition(
    transactions: dict[int, TransactionView], hangs: bool
) -> None:
    one = OpenTransaction(A0, OPEN)

    assert without_coordinator([one], transactions) == ([one] if hangs else [])


@pytest.mark.parametrize(
    ("now", "hangs"),
    [
        (OPEN, True),
        (OPEN._replace(last_sequence=13), True),
        (OPEN._replace(start_offset=None), False),  # ended between the requests
        (OPEN._replace(start_offset=44), False),  # and the next one started
    ],
)
def test_a_transaction_that_was_just_being_ended_does_not_hang(now: ProducerView, hangs: bool) -> None:
    one = OpenTransaction(A0, OPEN)

    assert still_open([one], {A0: [now]}) == ([one] if hangs else [])


# ---- tables --------------------------------------------------------------------------------------


def test_a_transaction_is_printed_with_its_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    left = TopicPartition("b", 0)
    view = VIEW._replace(transactional_id="t\x1b", partitions=[A0, A1, left, TopicPartition("gone", 0)])
    txn_tables.print_transaction(view, {A0: 40, A1: None, left: UNKNOWN}, NOW_MS)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "id t\\x1b  Ongoing  producer 7  epoch 3  timeout 60 s  open for 12.3 s  coordinator h:9092"
    )
    assert [line.split() for line in lines[2:]] == [
        ["a", "0", "40"],
        ["a", "1", "-"],
        ["b", "0", "no", "leader"],
        ["gone", "0", "deleted"],
    ]


def test_an_idle_id_is_printed_without_a_duration_and_a_missing_timeout_is_null(
    capsys: pytest.CaptureFixture[str],
) -> None:
    txn_tables.print_transaction(VIEW._replace(state="CompleteCommit", partitions=[]), {}, NOW_MS)
    two_phase = VIEW._replace(timeout_ms=2**31 - 1)
    txn = json.loads(json.dumps(txn_as_json.transaction_as_json(two_phase, {A0: 40}, NOW_MS)))

    assert capsys.readouterr().out == (
        "id t  CompleteCommit  producer 7  epoch 3  timeout 60 s  coordinator h:9092\n"
    )
    assert (txn["timeout_ms"], txn["open_for_ms"], txn["began_ms"]) == (None, 12_300, VIEW.start_ms)
    there = {"topic": "a", "partition": 0, "open_from": 40, "deleted": False, "leaderless": False}
    assert txn["partitions"] == [there]
    [gone] = txn_as_json.transaction_as_json(two_phase, {}, NOW_MS)["partitions"]
    assert gone["deleted"] and not gone["leaderless"]
    [left] = txn_as_json.transaction_as_json(two_phase, {A0: UNKNOWN}, NOW_MS)["partitions"]
    assert left["leaderless"] and left["open_from"] is None and not left["deleted"]


def test_lists_are_printed_as_tables_and_returned_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [ListedTransaction("t", "Ongoing", 7, 1)]
    two_phase = VIEW._replace(timeout_ms=2**31 - 1)
    txn_tables.print_transactions(listed, {"t": VIEW}, NOW_MS)
    txn_tables.print_producers({A0: [OPEN, OPEN._replace(last_timestamp_ms=-1, start_offset=None)]})
    txn_tables.print_hanging([OpenTransaction(A0, OPEN)], NOW_MS)
    txn_tables.print_transactions([], {}, NOW_MS)
    txn_tables.print_producers({A0: []})
    txn_tables.print_hanging([], NOW_MS)

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["id", "state", "producer", "coordinator", "open", "for", "timeout"]
    assert lines[1] == ["t", "Ongoing", "7", "1", "12.3", "s", "60", "s"]
    assert lines[3] == ["a", "0", "7", "3", "12", "1970-01-01T00:01:39.999Z", "5", "40"]
    assert lines[4][5:] == ["-", "5", "-"]
    assert lines[6] == ["a", "0", "7", "3", "40", "1970-01-01T00:01:39.999Z", "900.0"]
    assert len(lines) == 7
    [txn] = txn_as_json.listed_as_json(listed, {"t": two_phase}, NOW_MS)
    assert txn["coordinator"] == 1
    assert (txn["open_for_ms"], txn["timeout_ms"], txn["two_phase"]) == (12_300, None, True)
    [txn] = txn_as_json.listed_as_json(listed, {}, NOW_MS)
    assert (txn["open_for_ms"], txn["timeout_ms"], txn["two_phase"]) == (None, None, None)
    assert txn_as_json.hanging_as_json([OpenTransaction(A0, OPEN)], NOW_MS)[0]["silent_for_ms"] == LONG_MS + 1
    assert txn_as_json.producers_as_json({A0: [OPEN]})[0]["open_from"] == 40
