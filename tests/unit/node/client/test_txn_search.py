"""Transactions are searched at the leaders; partitions without one are reported."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import ask_leaders, txn_admin, txn_control
from ottla.node.client.ask_leaders import Answers
from ottla.node.client.cluster_client import Topic
from ottla.node.client.deadline import Deadline
from ottla.node.client.txn_admin import NO_LEADER, ListedTransactions, ProducerView, TransactionView
from ottla.node.client.txn_as_json import UNKNOWN

A0, A1, GONE = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("gone", 0)
OPEN = ProducerView(7, 3, 12, 0, 5, 40)
VIEW = TransactionView("t", "PrepareAbort", 7, 3, 60_000, 1, [A0, A1, GONE], "h:9092")


class Cluster:
    """A client whose successive metadata show the next leader of a-1; the last one stays."""

    def __init__(self, *leaders: int) -> None:
        self.leaders = list(leaders)
        self.topics: dict[str, Topic] = {}
        self.deadline = Deadline.after(60)

    def until(self, deadline: Deadline) -> "Cluster":
        self.deadline = deadline
        return self

    async def refresh(self, names: Sequence[str] | None) -> None:
        leader = self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]
        self.topics = {"a": Topic("a", UUID(int=1).bytes, {0: 2, 1: leader})}


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> list[TopicPartition]:
    """Return the partitions whose leaders were asked; all have the same open transaction."""
    found: list[TopicPartition] = []

    async def describe(_: Any, partitions: Any, **__: Any) -> dict[TopicPartition, list[ProducerView]]:
        found.extend(partitions)
        return {one: [OPEN] for one in partitions}

    async def find(_: Any, partitions: Any) -> Answers[list[ProducerView]]:
        return Answers(await describe(None, partitions), {})

    async def everywhere(*_: Any) -> list[TopicPartition]:
        return [A0, A1]

    async def no_transactions(*_: Any, **__: Any) -> ListedTransactions:
        return ListedTransactions([], {})

    monkeypatch.setattr(txn_admin, "describe_producers", describe)
    monkeypatch.setattr(txn_admin, "find_producers", find)
    monkeypatch.setattr(txn_admin, "partitions_to_search", everywhere)
    monkeypatch.setattr(txn_admin, "list_transactions", no_transactions)
    monkeypatch.setattr(txn_admin, "ELECTION_PAUSE_S", 0)
    return found


def leaders(cluster: Cluster) -> dict[TopicPartition, int]:
    return asyncio.run(txn_admin.leaders_of(cluster, [A0, A1, GONE]))  # type: ignore[arg-type]


def test_a_new_leader_is_awaited() -> None:
    assert leaders(Cluster(NO_LEADER, NO_LEADER, 1)) == {A0: 2, A1: 1}


def test_a_missing_leader_is_not_awaited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_leaders, "ELECTION_S", 0)

    assert leaders(Cluster(NO_LEADER)) == {A0: 2, A1: NO_LEADER}


def test_a_transaction_is_shown_where_it_has_a_leader(
    monkeypatch: pytest.MonkeyPatch, described: list[TopicPartition]
) -> None:
    monkeypatch.setattr(ask_leaders, "ELECTION_S", 0)

    starts = asyncio.run(txn_control.start_offsets(Cluster(NO_LEADER), VIEW))  # type: ignore[arg-type]

    assert starts == {A0: 40, A1: UNKNOWN}
    assert described == [A0]


def test_hanging_transactions_are_found_in_partitions_with_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_leaders, "ELECTION_S", 0)
    where: dict[str, Any] = {"topics": None, "broker_id": None, "longer_than_ms": 0}

    found = asyncio.run(txn_control.find_hanging(Cluster(NO_LEADER), **where))  # type: ignore[arg-type]

    assert [one.partition for one in found.found] == [A0]
    assert found.leaderless == [A1]
