"""Requests about share groups: descriptions, start offsets, lags, and their changes."""

import asyncio
import json
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli import group_tables
from ottla.node.client import group_admin, group_lag, share_group_admin
from ottla.node.client.group_lag import PartitionLag
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages import describe_share_group_offsets as described
from ottla.node.wire.messages import share_group_describe as share
from ottla.node.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.node.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.node.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from ottla.node.wire.messages.describe_share_partitions import InFlightRange, InFlightState
from tests.unit.node.client.scripted_cluster import ScriptedCluster, only_request

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Coordinator(ScriptedCluster):
    """The coordinator of the group, with the APIs of a server."""

    peer = "h:9092"

    def __init__(self, *answers: Any, has_share_groups: bool = True) -> None:
        super().__init__(*answers)
        self.versions = {ApiKey.SHARE_GROUP_DESCRIBE: (1, 1)} if has_share_groups else {}

    def client(self) -> Any:
        client: Any = super().client()

        async def coordinator(_: str) -> "Coordinator":
            return self

        client.coordinator = coordinator
        return client


def member(name: str, *numbers: int) -> share.Member:
    topics = [share.TopicPartitions(topic_id=bytes(16), topic_name="a", partitions=numbers)]
    return share.Member(
        member_id=name,
        member_epoch=3,
        client_id="ottla",
        client_host="/10.0.0.1",
        subscribed_topic_names=["a"],
        assignment=share.Assignment(topic_partitions=topics),
    )


def group(error_code: int = 0) -> share.ShareGroupDescribeResponse:
    one = share.DescribedGroup(
        error_code=error_code,
        group_id="g",
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=4,
        assignor_name="simple",
        members=[member("m1", 0, 1), member("m2", 0)],
    )
    return share.ShareGroupDescribeResponse(groups=[one])


UNKNOWN = DescribeGroupsResponse(
    groups=[DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)]
)


def test_a_group_that_is_not_classic_is_described_as_a_share_group() -> None:
    view = asyncio.run(group_admin.describe_group(Coordinator(UNKNOWN, group()).client(), "g"))

    assert (view.group_type, view.state, view.assignor, view.epoch) == ("share", "Stable", "simple", 4)
    assert [(one.member_id, one.host, one.partitions) for one in view.members] == [
        ("m1", "10.0.0.1", [A0, A1]),
        ("m2", "10.0.0.1", [A0]),
    ]


def test_an_unknown_group_is_not_found() -> None:
    cluster = Coordinator(UNKNOWN, group(ErrorCode.GROUP_ID_NOT_FOUND))
    with pytest.raises(KafkaError) as caught:
        asyncio.run(group_admin.describe_group(cluster.client(), "g"))
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_server_without_share_groups_is_not_asked_for_them() -> None:
    cluster = Coordinator(UNKNOWN, has_share_groups=False)
    with pytest.raises(KafkaError):
        asyncio.run(group_admin.describe_group(cluster.client(), "g"))
    assert len(cluster.requests) == 1


def test_partitions_that_were_never_read_have_no_start() -> None:
    partitions = [
        described.DescribeShareGroupOffsetsResponsePartition(
            partition_index=number, start_offset=start, leader_epoch=2, lag=lag
        )
        for number, start, lag in ((0, 5, 7), (1, 6, -1), (2, -1, -1))
    ]
    topic = described.DescribeShareGroupOffsetsResponseTopic(
        topic_name="a", topic_id=bytes(16), partitions=partitions
    )
    one = described.DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic])
    cluster = Coordinator(described.DescribeShareGroupOffsetsResponse(groups=[one]))

    found = asyncio.run(share_group_admin.share_starts(cluster.client(), "g"))

    assert found == {
        A0: (5, 2, 7, None),
        A1: (6, 2, None, None),
        TopicPartition("a", 2): (None, 2, None, None),
    }
    assert not only_request(cluster).include_in_flight


def test_records_in_flight_are_requested_and_returned() -> None:
    state = InFlightState(acquired=3)
    one = described.DescribeShareGroupOffsetsResponsePartition(
        partition_index=0, start_offset=5, leader_epoch=2, lag=7, in_flight=state
    )
    topic = described.DescribeShareGroupOffsetsResponseTopic(
        topic_name="a", topic_id=bytes(16), partitions=[one]
    )
    group = described.DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic])
    cluster = Coordinator(described.DescribeShareGroupOffsetsResponse(groups=[group]))

    found = asyncio.run(share_group_admin.share_starts(cluster.client(), "g", with_in_flight=True))

    assert found == {A0: (5, 2, 7, state)}
    assert only_request(cluster).include_in_flight
    assert only_request(cluster).groups[0].topics is None


def test_start_offsets_are_set_and_an_error_of_one_is_raised() -> None:
    answers = [
        AlterShareGroupOffsetsResponsePartition(partition_index=0),
        AlterShareGroupOffsetsResponsePartition(
            partition_index=1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="not a-1"
        ),
    ]
    topic = AlterShareGroupOffsetsResponseTopic(topic_name="a", topic_id=bytes(16), partitions=answers)
    cluster = Coordinator(AlterShareGroupOffsetsResponse(responses=[topic]))

    with pytest.raises(KafkaError) as caught:
        asyncio.run(share_group_admin.set_share_starts(cluster.client(), "g", {A0: 1, A1: 2}))

    assert "a-1" in caught.value.detail
    (requested,) = only_request(cluster).topics
    assert [(one.partition_index, one.start_offset) for one in requested.partitions] == [(0, 1), (1, 2)]


def test_each_deleted_topic_has_its_answer() -> None:
    answers = [
        DeleteShareGroupOffsetsResponseTopic(topic_name="a", topic_id=bytes(16)),
        DeleteShareGroupOffsetsResponseTopic(
            topic_name="b", topic_id=bytes(16), error_code=3, error_message="gone"
        ),
    ]
    cluster = Coordinator(DeleteShareGroupOffsetsResponse(responses=answers))

    deleted = asyncio.run(share_group_admin.delete_share_starts(cluster.client(), "g", ["a", "b"]))

    assert deleted == {"a": (0, None), "b": (3, "gone")}


@pytest.mark.parametrize(
    ("offset", "lag", "in_flight", "expected"),
    [
        (5, 7, None, (5, 7)),  # the coordinator has the lag
        (5, 7, InFlightState(start_offset=9, acknowledged=1), (5, 7)),
        (None, None, InFlightState(start_offset=3, acknowledged=2, archived=1), (3, 14)),
        (None, None, None, (None, None)),
        (6, None, InFlightState(start_offset=6), (6, None)),  # a server that returns no lag
        (None, None, InFlightState(start_offset=99), (99, 0)),
    ],
)
def test_before_the_first_acknowledgement_the_leader_has_the_lag(
    monkeypatch: pytest.MonkeyPatch,
    offset: int | None,
    lag: int | None,
    in_flight: InFlightState | None,
    expected: tuple[int | None, int | None],
) -> None:
    async def share_starts(*_: Any, **__: Any) -> dict[TopicPartition, share_group_admin.ShareStart]:
        return {A0: share_group_admin.ShareStart(offset, 2, lag, in_flight)}

    async def log_offsets(*_: Any) -> dict[TopicPartition, int]:
        return {A0: 20}

    monkeypatch.setattr(group_lag, "share_starts", share_starts)
    monkeypatch.setattr(group_lag, "log_offsets", log_offsets)

    found = asyncio.run(
        group_lag.of_share_group(
            Coordinator().client(), "g", [], is_wanted=lambda _: True, with_in_flight=True
        )
    )

    assert (found[A0].committed_offset, found[A0].records, found[A0].in_flight) == (*expected, in_flight)


def test_a_partition_is_printed_with_all_members_that_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    view = asyncio.run(group_admin.describe_group(Coordinator(UNKNOWN, group()).client(), "g"))
    lags = {A0: PartitionLag(5, 20, None, 7), A1: PartitionLag(None, None)}

    group_tables.print_group(view, lags)
    lines = capsys.readouterr().out.splitlines()
    partitions = json.loads(json.dumps(group_tables.group_as_json(view, lags)))["partitions"]

    assert [line.split() for line in lines[1:]] == [
        ["topic", "partition", "start", "end", "lag", "members"],
        ["a", "0", "5", "20", "7", "2"],
        ["a", "1", "-", "-", "-", "1"],
    ]
    assert [(one["start"], one["lag"], one["members"]) for one in partitions] == [
        (5, 7, ["m1", "m2"]),
        (None, None, ["m1"]),
    ]


def test_records_in_flight_are_printed_beside_the_lag(capsys: pytest.CaptureFixture[str]) -> None:
    view = asyncio.run(group_admin.describe_group(Coordinator(UNKNOWN, group()).client(), "g"))
    held = InFlightRange(
        first_offset=5, last_offset=5, delivery_count=4, state=1, member_id="m1", lock_left_ms=12_340
    )
    first = InFlightRange(first_offset=8, last_offset=9, delivery_count=1, state=0)
    newer = InFlightRange(first_offset=6, last_offset=7, delivery_count=2, state=99)
    state = InFlightState(
        start_offset=5,
        end_offset=12,
        acquired=1,
        available=4,
        delayed=2,
        backing_off=1,
        delivery_count_limit=5,
        stalled_ms=90_000,
        most_delivered=[held, newer, first],
        next_locks=[held],
        letter_failure=int(ErrorCode.LEADER_NOT_AVAILABLE),
        letter_failure_ms=61_500,
    )
    lags = {A0: PartitionLag(5, 20, None, 7, state), A1: PartitionLag(None, None)}

    group_tables.print_group(view, lags)
    lines = capsys.readouterr().out.splitlines()
    partitions = json.loads(json.dumps(group_tables.group_as_json(view, lags)))["partitions"]

    assert [" ".join(line.split()) for line in lines[1:]] == [
        "topic partition start end lag members acquired available waiting most deliveries next lock expiry",
        "a 0 5 20 7 2 1 4 3 4 of 5, offset 5 in 12.3 s, offset 5",
        "a 1 - - - 1 - - - - -",
        "records of each partition with the most deliveries (more than one):",
        "topic partition offsets deliveries state member lock ends",
        "a 0 5 4 acquired m1 in 12.3 s",
        "a 0 6-7 2 99 - -",
        "the last dead letters of a-0 could not be written 61 s ago: LEADER_NOT_AVAILABLE",
    ]
    flight = partitions[0]["in_flight"]
    assert (flight["acquired"], flight["delayed"], flight["backing_off"], flight["stalled_ms"]) == (
        *(1, 2, 1),
        90_000,
    )
    assert flight["dead_letter_error"] == "LEADER_NOT_AVAILABLE"
    assert (flight["dead_letter_error_ms"], flight["dead_letters_lost"]) == (61_500, True)
    assert flight["most_delivered"][0] == flight["next_locks"][0]
    assert flight["next_locks"][0] == {
        "first_offset": 5,
        "last_offset": 5,
        "delivery_count": 4,
        "state": "acquired",
        "member": "m1",
        "lock_left_ms": 12_340,
    }
    assert flight["most_delivered"][2]["lock_left_ms"] is None
    assert partitions[1]["in_flight"] is None
