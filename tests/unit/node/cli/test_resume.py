"""The start offsets of a member without committed offsets, and its heartbeats during the search."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli import record_commands
from ottla.node.client.ask_leaders import Answers
from ottla.node.client.cluster_client import Client
from ottla.node.client.deadline import Deadline
from ottla.node.client.group_member import GroupMember
from ottla.node.client.newest_records import Newest, Shortfall, Span
from ottla.node.client.topic_admin import OffsetAndTimestamp

PLACE = TopicPartition("orders", 0)


class Member:
    """A member without committed offsets, of a group that rebalances after a number of heartbeats."""

    def __init__(self, heartbeats: int) -> None:
        self.must_rejoin = False
        self.count = 0
        self._heartbeats = heartbeats

    async def committed(self, _partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        return {}

    async def heartbeat(self) -> None:
        self.count += 1
        self.must_rejoin = self.count >= self._heartbeats


class Cluster:
    """A client with a long deadline."""

    deadline = Deadline.after(60)

    def renewed(self) -> "Cluster":
        return self

    def until(self, deadline: Deadline) -> "Cluster":
        return self


async def find_offsets(_client: object, wanted: Mapping[TopicPartition, int], **_: int) -> Answers[Any]:
    return Answers({one: OffsetAndTimestamp(100, -1) for one in wanted}, {})


async def newest(
    _client: object,
    spans: Mapping[TopicPartition, Span],
    _count: int,
    *,
    read_committed: bool,
    goes_on: Callable[[], Awaitable[bool]],
) -> dict[TopicPartition, Newest]:
    for _ in range(5):
        if not await goes_on():
            return dict.fromkeys(spans, Newest(0, Shortfall.DEADLINE))
    return dict.fromkeys(spans, Newest(95, None))


@pytest.mark.parametrize(("heartbeats", "expected"), [(10, {PLACE: 95}), (3, None)])
def test_a_member_heartbeats_while_it_searches_for_the_newest_records(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    heartbeats: int,
    expected: dict[TopicPartition, int] | None,
) -> None:
    monkeypatch.setattr(record_commands.topic_admin, "find_offsets", find_offsets)
    monkeypatch.setattr(record_commands, "newest_offsets", newest)
    member, begin = Member(heartbeats), record_commands.OffsetSpec(before_end=5)

    resumed = asyncio.run(
        record_commands.resume(
            cast(Client, Cluster()), cast(GroupMember, member), [PLACE], begin, read_committed=True
        )
    )

    assert (None if resumed is None else resumed.found) == expected
    assert member.count >= min(heartbeats, 5)
    assert capsys.readouterr().err == ""


def test_a_search_that_fell_short_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def newest_at_deadline(*_: object, **__: object) -> dict[TopicPartition, Newest]:
        return {PLACE: Newest(95, Shortfall.DEADLINE)}

    monkeypatch.setattr(record_commands.topic_admin, "find_offsets", find_offsets)
    monkeypatch.setattr(record_commands, "newest_offsets", newest_at_deadline)

    placed = asyncio.run(
        record_commands.find_start_offsets(
            cast(Client, Cluster()), [PLACE], record_commands.OffsetSpec(before_end=5), read_committed=True
        )
    )

    assert placed.found == {PLACE: 95}
    assert capsys.readouterr().err == (
        "ottla: orders-0 is read from offset 95, where fewer than 5 records may be left: the "
        "search for them ran out of time (--timeout).\n"
    )
