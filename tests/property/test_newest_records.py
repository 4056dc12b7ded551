"""The search for the newest N records against a model that counts the records that a reader sees."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import consumer as consumer_module
from ottla.node.client import newest_records
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import Consumer
from ottla.node.client.deadline import Deadline
from ottla.node.client.newest_records import Newest, Shortfall, Span, newest_offsets
from ottla.node.wire.messages.fetch import PartitionData
from tests.property.newest_logs import STEPS, ModelLog, Step, read_all

TOPIC = "t"
MAX_FETCHES = 1_000  # far more than any of these logs needs
LOGS = st.lists(st.tuples(st.lists(STEPS, max_size=30), st.integers(0, 20)), min_size=1, max_size=4)


class FakeClient:
    """The part of a client that a consumer uses; each fetch advances its clock by a second."""

    timeout_s = 30.0
    remaining_ms = 1000
    opening = None

    def __init__(self, given_s: float = MAX_FETCHES) -> None:
        self.fetches = 0
        self.deadline = Deadline.after(given_s, lambda: float(self.fetches))

    def until(self, _deadline: Deadline) -> "FakeClient":
        return self

    def forget(self, _topic: str) -> None:
        """Do nothing, as this client caches nothing."""


class Nodes:
    """Two leaders, which return a few bytes at a time."""

    def __init__(self, logs: Mapping[TopicPartition, ModelLog], max_bytes: int, partition_max: int) -> None:
        self.logs = logs
        self.silent: set[TopicPartition] = set()
        self._limits = {"max_bytes": max_bytes, "partition_max_bytes": partition_max}

    async def find_leaders(
        self, _client: object, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | KafkaError]:
        lost = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
        return {one: lost if one in self.silent else one.partition % 2 for one in partitions}

    async def fetch_once(
        self,
        client: FakeClient,
        _leader: int,
        positions: Mapping[TopicPartition, int],
        *,
        isolation: int,
        **_limits: int,
    ) -> dict[TopicPartition, PartitionData]:
        client.fetches += 1
        return read_all(self.logs, positions, isolation=isolation, **self._limits)


def search(
    nodes: Nodes, count: int, *, read_committed: bool, client: FakeClient, **options: Any
) -> dict[int, Newest]:
    spans = {one: log.span(read_committed=read_committed) for one, log in nodes.logs.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer_module, "find_leaders", nodes.find_leaders)
        patch.setattr(consumer_module, "fetch_once", nodes.fetch_once)
        patch.setattr(consumer_module, "RETRY_PAUSE_S", 0)
        found = asyncio.run(
            newest_offsets(cast(Client, client), spans, count, read_committed=read_committed, **options)
        )
    return {partition.partition: one for partition, one in found.items()}


def made(*logs: tuple[list[Step], int], max_bytes: int = 100_000, partition_max: int = 100_000) -> Nodes:
    return Nodes(
        {TopicPartition(TOPIC, number): ModelLog(*log) for number, log in enumerate(logs)},
        max_bytes,
        partition_max,
    )


@given(
    LOGS,
    st.integers(0, 40),
    st.booleans(),
    st.integers(1, 2_000),
    st.integers(1, 1_000),
)
def test_the_newest_records_are_the_last_that_the_reader_sees(
    logs: list[tuple[list[Step], int]], count: int, read_committed: bool, max_bytes: int, partition_max: int
) -> None:
    nodes, client = made(*logs, max_bytes=max_bytes, partition_max=partition_max), FakeClient()

    found = search(nodes, count, read_committed=read_committed, client=client)

    for (_, number), log in nodes.logs.items():
        seen = log.seen(read_committed=read_committed)
        first, end = log.span(read_committed=read_committed)
        wanted = seen[-count:] if count else []
        assert [one for one in seen if one >= found[number].offset] == wanted
        assert found[number].shortfall is None
        assert first <= found[number].offset <= end
    assert not client.deadline.is_over


@given(LOGS, st.booleans(), st.integers(1, 2_000), st.integers(1, 1_000))
def test_a_reader_skips_every_hole_and_no_record(
    logs: list[tuple[list[Step], int]], read_committed: bool, max_bytes: int, partition_max: int
) -> None:
    nodes, client = made(*logs, max_bytes=max_bytes, partition_max=partition_max), FakeClient()
    spans = {one: log.span(read_committed=read_committed) for one, log in nodes.logs.items()}
    found: dict[TopicPartition, list[int]] = {one: [] for one in spans}

    async def read() -> None:
        reader = Consumer(cast(Client, client), read_committed=read_committed)
        reader.positions = {one: span.first for one, span in spans.items()}
        while any(reader.positions[one] < span.end for one, span in spans.items()):
            assert client.fetches < MAX_FETCHES, "the reader does not reach the end"
            for one, records in await reader.fetch():
                found[one] += [record.offset for record in records]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer_module, "find_leaders", nodes.find_leaders)
        patch.setattr(consumer_module, "fetch_once", nodes.fetch_once)
        patch.setattr(FakeClient, "renewed", lambda self: self, raising=False)
        asyncio.run(read())

    assert found == {one: log.seen(read_committed=read_committed) for one, log in nodes.logs.items()}


# ---- incomplete results --------------------------------------------------------------------------

LONG = ([Step("plain", 1, 5), *[Step("open", 1, 5), Step("abort", 1, 1)] * 40], 0)


def test_a_search_out_of_time_is_reported_as_incomplete_except_at_the_start() -> None:
    nodes = made(LONG, ([Step("plain", 1, 3)], 0), partition_max=100)

    found = search(nodes, 2, read_committed=True, client=FakeClient(given_s=4))

    assert found[0].shortfall is Shortfall.DEADLINE
    assert found[1] == Newest(1, None)


def test_more_than_the_maximum_is_reported_as_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_records, "MAX_COUNTED", 10)
    nodes = made(LONG, ([Step("plain", 1, 3)], 0))

    found = search(nodes, 11, read_committed=True, client=FakeClient())

    assert found == {0: Newest(245 - 11, Shortfall.COUNTED), 1: Newest(0, None)}


def test_an_unreadable_partition_is_reported_and_does_not_stop_the_others() -> None:
    nodes = made(LONG, LONG)
    nodes.silent = {TopicPartition(TOPIC, 0)}

    found = search(nodes, 5, read_committed=True, client=FakeClient())

    assert found == {0: Newest(240, Shortfall.UNAVAILABLE), 1: Newest(0, None)}


def test_the_caller_may_end_the_search_after_each_round() -> None:
    """A member of a group sends its heartbeats there."""
    rounds: list[int] = []
    nodes, client = made(LONG, partition_max=100), FakeClient()

    async def goes_on() -> bool:
        rounds.append(client.fetches)
        return len(rounds) < 3

    found = search(nodes, 5, read_committed=True, client=client, goes_on=goes_on)

    assert rounds == [1, 2, 3]
    assert found[0].shortfall is Shortfall.DEADLINE


def test_an_empty_span_returns_its_end() -> None:
    nodes = made(([], 0))
    nodes.logs = {TopicPartition(TOPIC, 0): ModelLog([Step("hole", 1, 5)], 5)}

    assert nodes.logs[TopicPartition(TOPIC, 0)].span(read_committed=True) == Span(5, 5)
    assert search(nodes, 3, read_committed=True, client=FakeClient()) == {0: Newest(5, None)}
