"""Partitions without a leader are named, the others are answered, and all of it ends at the deadline."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import ask_leaders as module
from ottla.node.client.ask_leaders import ask_leaders
from ottla.node.client.cluster_client import Client, Topic
from ottla.node.client.deadline import Deadline
from ottla.node.wire.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic

LED, LEADERLESS, OTHER = (TopicPartition("t", number) for number in range(3))


class World:
    """A cluster with metadata set by the test, and a clock that only sleeping advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *leaders: int, given_s: float = 5) -> None:
        self.now_s = 0.0
        self.refreshes = 0
        self.requests: list[tuple[int, list[TopicPartition]]] = []
        self.leaders = dict(enumerate(leaders))
        self.client = Client([("h", 1)], timeout_s=given_s).until(Deadline.after(given_s, lambda: self.now_s))
        self.client.learn(MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)]))
        monkeypatch.setattr(self.client, "refresh", self._refresh)
        monkeypatch.setattr(module.asyncio, "sleep", self._sleep)

    async def _refresh(self, names: Sequence[str]) -> Any:
        self.refreshes += 1
        self.client.topics["t"] = Topic("t", bytes(16), dict(self.leaders))
        return MetadataResponse(topics=[MetadataResponseTopic(name="t")])

    async def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    async def ask(
        self, leader: int, mine: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | KafkaError]:
        self.requests.append((leader, list(mine)))
        return {one: one.partition for one in mine}


def test_partitions_with_a_leader_are_answered_and_the_other_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 1, -1, 1)

    answers = asyncio.run(ask_leaders(world.client, [LED, LEADERLESS, OTHER], world.ask))

    assert answers.found == {LED: 0, OTHER: 2}
    assert answers.problems[LEADERLESS].code is ErrorCode.LEADER_NOT_AVAILABLE
    # No leader is asked again for a partition that has its answer.
    assert world.requests == [(1, [LED, OTHER])]
    assert 4 < world.now_s <= 5
    with pytest.raises(KafkaError, match="t-1"):
        answers.all()


def test_a_leader_that_is_elected_in_time_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1, -1)

    async def elected(leader: int, mine: Sequence[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        world.leaders[1] = 1
        return await world.ask(leader, mine)

    answers = asyncio.run(ask_leaders(world.client, [LED, LEADERLESS], elected))

    assert answers.all() == {LED: 0, LEADERLESS: 1} and world.now_s < 1


def test_a_missing_partition_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1)

    answers = asyncio.run(ask_leaders(world.client, [LED, LEADERLESS], world.ask))

    assert answers.problems[LEADERLESS].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.now_s == 0 and world.refreshes == 1


def test_a_retry_ends_at_the_deadline_however_it_is_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, -1, given_s=2)

    async def attempt() -> int:
        return (await ask_leaders(world.client, [LED], world.ask)).all()[LED]

    with pytest.raises(KafkaError, match="t-0 has no leader at the moment"):
        asyncio.run(world.client.retry(attempt))
    assert world.now_s <= 2
