"""The handlers of the group APIs: differences between versions, and the fields that errors are in."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.consumer.consumer_commands import TopicsChanged
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, iterate_headers
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema_compiler import decode, decoder, encode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.coordinators.group_lag import GroupOffset, PartitionLag
from ottla.node.coordinators.group_topics import ImageTopics
from ottla.node.kafka_api import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from ottla.node.kafka_api.packed_commit import packing_decoder
from ottla.node.kafka_api.request_context import ConnectionInfo, RequestContext
from ottla.node.net.answers import EncodedBody
from ottla.node.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.node.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.node.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.node.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.node.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.node.wire.messages.heartbeat import HeartbeatRequest
from ottla.node.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.node.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.node.wire.messages.list_groups import ListGroupsRequest
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.node.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.node.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.node.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.node.coordinators.group_node import GroupNode, Scenario, play
from tests.unit.node.fakes import Lag
from tests.unit.node.handler_results import settled

FLIGHTS = b"f" * 16
CONNECTION = ConnectionInfo(
    access=Access(ANONYMOUS, "127.0.0.1"),
    number=1,
    connection_id="c-1",
    listener_name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    client_host="10.0.0.7",
    client_port=5555,
    local_host="127.0.0.1",
    local_port=9092,
)


async def call(node: GroupNode, api: ModuleType, version: int, request: Any) -> Any:
    """Return the response as a client of that version would read it."""
    request = decode(type(request), version, encode(request, version))
    context = RequestContext(0, version, 1, "app", CONNECTION)
    answer = await settled(api.handle(node.services, context, request))
    return decode(type(answer), version, encode(answer, version))


def serving(scenario: Scenario, node: GroupNode | None = None) -> None:
    """Play a scenario on a node whose groups are loaded, with the topic `flights` of two partitions."""

    async def prepared(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        node.add_topic("flights", FLIGHTS)
        await scenario(node)

    play(prepared, node)


def join_request(member_id: str = "", **more: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **more,
    )


async def member(node: GroupNode, version: int = 9) -> str:
    """Create a stable group of one member; return its id."""
    joined = await call(node, join_group, version, join_request())
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        joined = await call(node, join_group, version, join_request(joined.member_id))
    assert joined.error_code == 0, joined
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
    )
    synced = await call(node, sync_group, 5, request)
    assert synced.assignment == b"all"
    return str(joined.member_id)


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        first = await call(node, join_group, version, join_request())
        if version >= 4:
            assert (first.error_code, first.protocol_name) == (79, None if version >= 7 else "")
            first = await call(node, join_group, version, join_request(first.member_id))

        assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
        assert first.member_id.startswith("app-") and first.leader == first.member_id
        assert [each.metadata for each in first.members] == [b"m"]
        described = await call(node, describe_groups, 6, DescribeGroupsRequest(groups=["g"]))
        assert described.groups[0].members[0].client_host == "/10.0.0.7"

    serving(scenario)


@pytest.mark.parametrize(("version", "rebalance_ms"), [(0, 10_000), (1, 20_000), (9, 20_000)])
def test_the_rebalance_timeout_is_the_session_timeout_before_version_1(
    version: int, rebalance_ms: int
) -> None:
    async def scenario(node: GroupNode) -> None:
        await member(node, version)

        assert group_of(node).rebalance_timeout_ms() == rebalance_ms

    serving(scenario)


@pytest.mark.parametrize("version", [7, 8, 9])
def test_members_say_why_they_join_and_leave_kip_800(version: int) -> None:
    """The timeline of the group has the reason of a join since version 8, of a leave since version 5."""

    async def scenario(node: GroupNode) -> None:
        joined = await call(node, join_group, version, join_request())
        await call(node, join_group, version, join_request(joined.member_id, reason="first start"))
        leaving = MemberIdentity(member_id=joined.member_id, reason="scaled down")
        request = LeaveGroupRequest(group_id="g", members=[leaving])
        await call(node, leave_group, min(version - 4, 5), request)

        (rebalance,) = group_of(node).timeline.last()
        assert [event.reason for event in rebalance.events] == (
            ["", ""]
            if version < 8
            else ["first start", ""]
            if version < 9
            else ["first start", "scaled down"]
        )

    serving(scenario)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_lag_is_returned_to_clients_that_send_its_tag(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        await call(node, offset_commit, 9, commit_request(("flights", FLIGHTS, [0, 1])))
        topics = [OffsetFetchRequestTopics(name="flights", topic_id=FLIGHTS, partition_indexes=[0, 1, 2])]
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        looked_up: list[GroupOffset] = []

        async def measure(places: Iterable[GroupOffset]) -> dict[GroupOffset, PartitionLag]:
            looked_up.extend(places)
            return {looked_up[0]: PartitionLag(43, 3, 1_500), looked_up[2]: PartitionLag(7, None, None)}

        node.group_lag = Lag(measure)

        plain = await call(node, offset_fetch, version, OffsetFetchRequest(groups=[group]))
        response = await call(
            node, offset_fetch, version, OffsetFetchRequest(groups=[group], include_lag=True)
        )

        def lags(answer: OffsetFetchResponse) -> list[tuple[int, int, int]]:
            (topic,) = answer.groups[0].topics
            return [(one.committed_offset, one.log_end_offset, one.lag_ms) for one in topic.partitions]

        assert lags(plain) == [(40, -1, -1), (41, -1, -1), (-1, -1, -1)] and not plain.groups[0].has_lag
        assert lags(response) == [(40, 43, 1_500), (41, -1, -1), (-1, 7, -1)] and response.groups[0].has_lag
        assert [(place.partition.partition, place.committed) for place in looked_up] == [
            (0, 40),
            (1, 41),
            (2, None),
        ]

    serving(scenario)


@pytest.mark.parametrize("version", range(7))
def test_the_timeline_is_returned_to_clients_that_send_its_tag(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        member_id = await member(node)
        await call(
            node,
            leave_group,
            5,
            LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)]),
        )

        asks = DescribeGroupsRequest(groups=["g", "unknown"], include_timeline=True)
        known, unknown = (await call(node, describe_groups, version, asks)).groups
        (plain,) = (await call(node, describe_groups, version, DescribeGroupsRequest(groups=["g"]))).groups

        assert plain.rebalances is None
        if version < 5:
            assert known.rebalances is None
            return
        joined, left = known.rebalances
        assert [(one.cause, one.client_id) for one in joined.events] == [("MemberJoined", "app")]
        assert (joined.generation_before, joined.generation_after, joined.member_count) == (0, 1, 1)
        assert joined.began_ms == joined.events[0].timestamp_ms <= joined.ended_ms
        assert [(one.cause, one.member_id) for one in left.events] == [("MemberLeft", member_id)]
        assert unknown.rebalances == []

    serving(scenario)


def test_a_rebalance_that_is_running_has_no_end() -> None:
    async def scenario(node: GroupNode) -> None:
        await call(node, join_group, 3, join_request())

        asks = DescribeGroupsRequest(groups=["g"], include_timeline=True)
        (group,) = (await call(node, describe_groups, 6, asks)).groups

        (running,) = group.rebalances
        assert (running.ended_ms, running.generation_after, running.member_count) == (-1, -1, -1)

    serving(scenario)


def group_of(node: GroupNode) -> ClassicGroup:
    shard = node.groups.shards[node.groups.partition_for("g")]
    assert shard.coordinator is not None
    group = shard.coordinator.shard.classic_group("g")
    assert group is not None
    return group


@pytest.mark.parametrize("version", range(6))
def test_sync_checks_the_protocol_since_version_5(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        member_id = await member(node)
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)

        answer = await call(node, sync_group, version, request)

        expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else ErrorCode.NONE
        assert answer.error_code == expected
        assert answer.assignment == (b"" if version >= 5 else b"all")

    serving(scenario)


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_of_another_generation_or_an_unknown_member_are_rejected(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        member_id = await member(node)
        codes = []
        for generation_id, sender_id in [(1, member_id), (2, member_id), (1, "nobody")]:
            request = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=sender_id)
            codes.append((await call(node, heartbeat, version, request)).error_code)

        assert codes == [0, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]

    serving(scenario)


@pytest.mark.parametrize("version", range(6))
def test_one_member_leaves_before_version_3_and_a_batch_since(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        member_id = await member(node)
        if version < 3:
            unknown = await call(node, leave_group, version, LeaveGroupRequest(group_id="g", member_id="x"))
            left = await call(
                node, leave_group, version, LeaveGroupRequest(group_id="g", member_id=member_id)
            )
            assert (unknown.error_code, left.error_code) == (ErrorCode.UNKNOWN_MEMBER_ID, 0)
            return
        request = LeaveGroupRequest(
            group_id="g", members=[MemberIdentity(member_id="x"), MemberIdentity(member_id=member_id)]
        )
        answer = await call(node, leave_group, version, request)
        assert answer.error_code == 0
        assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID, 0]

    serving(scenario)


def commit_request(
    *topics: tuple[str, bytes, list[int]], generation_id: int = -1, member_id: str = ""
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=40 + index)
                    for index in partitions
                ],
            )
            for name, topic_id, partitions in topics
        ],
    )


def logged(node: GroupNode) -> list[bytes]:
    """Return the records of each batch of the group's partition, as bytes."""
    partition = node.replicas.find(TopicPartition(OFFSETS_TOPIC, node.groups.partition_for("g")))
    assert partition is not None
    segment = partition.log.active_segment
    content = segment.slice(0, segment.size_bytes).read()
    return [
        bytes(content[position + HEADER_SIZE : position + LOG_OVERHEAD + header.batch_length])
        for position, header in iterate_headers(content)
    ]


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("has_members", [False, True])
@pytest.mark.parametrize("partitions", [[0, 1] * 4, [0, 1] * 70, [0, 1, 9] * 5], ids=["some", "many", "odd"])
def test_commits_that_are_read_by_columns_have_the_same_effect(
    version: int, has_members: bool, partitions: list[int]
) -> None:
    async def scenario(node: GroupNode) -> None:
        if has_members:
            await member(node)
        topics = [("flights", FLIGHTS, partitions)]
        if partitions[2] == 9:
            topics.append(("gone", b"g" * 16, list(range(30))))
        content = encode(commit_request(*topics), version)
        general = decoder(OffsetCommitRequest, version)
        before = len(logged(node))

        answers = []
        for reads in (general, packing_decoder(version, general)):
            request, _ = reads(content, 0)
            context = RequestContext(8, version, 1, "app", CONNECTION)
            answer = await settled(offset_commit.handle(node.services, context, request))
            if isinstance(answer, EncodedBody):
                answers.append(b"".join(answer.buffers))
            else:
                answers.append(encode(answer, version))
            assert isinstance(request, OffsetCommitRequest) == (reads is general or version < 6)

        assert answers[0] == answers[1]
        written = logged(node)[before:]
        assert written == [] if has_members else len(written) == 2 and written[0] == written[1]

    serving(scenario)


@pytest.mark.parametrize("version", range(2, 11))
def test_unknown_topics_and_partitions_do_not_hinder_a_commit_gotcha_24(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        request = commit_request(("flights", FLIGHTS, [0, 9, 1]), ("gone", b"g" * 16, [0]))

        answer = await call(node, offset_commit, version, request)

        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = [[each.error_code for each in topic.partitions] for topic in answer.topics]
        assert codes == [[0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0], [unknown]]
        names = [topic.topic_id if version >= 10 else topic.name for topic in answer.topics]
        assert names == ([FLIGHTS, b"g" * 16] if version >= 10 else ["flights", "gone"])

    serving(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_commit_of_a_member_of_an_unknown_group_is_rejected_with_the_error_of_its_version(
    version: int, error: ErrorCode
) -> None:
    async def scenario(node: GroupNode) -> None:
        request = commit_request(("flights", FLIGHTS, [0]), generation_id=1, member_id="m")

        answer = await call(node, offset_commit, version, request)

        assert answer.topics[0].partitions[0].error_code == error

    serving(scenario)


@pytest.mark.parametrize("version", range(1, 8))
def test_the_offsets_of_one_group_are_fetched(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        await call(node, offset_commit, 9, commit_request(("flights", FLIGHTS, [0, 1])))
        some = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="flights", partition_indexes=[1, 1, 7])]
        )
        fetched = await call(node, offset_fetch, version, some)

        assert [each.committed_offset for each in fetched.topics[0].partitions] == [41, 41, -1]
        assert {each.error_code for each in fetched.topics[0].partitions} == {0}
        if version >= 2:
            everything = await call(
                node, offset_fetch, version, OffsetFetchRequest(group_id="g", topics=None)
            )
            assert [len(topic.partitions) for topic in everything.topics] == [2]

    serving(scenario)


@pytest.mark.parametrize("version", range(1, 8))
def test_errors_of_a_fetch_are_in_the_partitions_at_version_1_kafka_19246(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        request = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="flights", partition_indexes=[0])]
        )

        answer = await call(node, offset_fetch, version, request)

        if version == 1:
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        else:
            assert (answer.error_code, list(answer.topics)) == (ErrorCode.NOT_COORDINATOR, [])

    play(scenario)


@pytest.mark.parametrize("version", [1, 7, 8, 10])
def test_a_fetch_that_waits_too_long_for_the_replicas_looks_up_the_coordinator_again(version: int) -> None:
    """handleOffsetFetchException: consumers before 3.9 do not expect COORDINATOR_NOT_AVAILABLE here."""

    async def scenario(node: GroupNode) -> None:
        committing = asyncio.ensure_future(
            call(node, offset_commit, 9, commit_request(("flights", FLIGHTS, [0])))
        )
        await asyncio.sleep(0)
        topic = OffsetFetchRequestTopic(name="flights", partition_indexes=[0])
        groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
        request = OffsetFetchRequest(group_id="g", topics=[topic], groups=groups)

        answer = await call(node, offset_fetch, version, request)

        if version == 1:
            answer = answer.topics[0].partitions[0]
        elif version >= 8:
            answer = answer.groups[0]
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        committed = await committing
        code = committed.topics[0].partitions[0].error_code
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    serving(scenario, GroupNode(replicas=(1, 2)))


@pytest.mark.parametrize("version", [8, 9, 10])
def test_the_offsets_of_several_groups_are_fetched_at_once(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        await call(node, offset_commit, 9, commit_request(("flights", FLIGHTS, [0])))
        topics = [
            OffsetFetchRequestTopics(name="flights", topic_id=FLIGHTS, partition_indexes=[0]),
            OffsetFetchRequestTopics(name="gone", topic_id=b"g" * 16, partition_indexes=[0]),
        ]
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(group_id="g", topics=topics),
                OffsetFetchRequestGroup(group_id="g", topics=None),
                OffsetFetchRequestGroup(group_id="h", topics=None),
            ]
        )

        some, everything, nothing = (await call(node, offset_fetch, version, request)).groups

        offsets = [[(p.committed_offset, p.error_code) for p in topic.partitions] for topic in some.topics]
        assert offsets == [[(40, 0)], [(-1, ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 0)]]
        assert [topic.topic_id for topic in some.topics] == (
            [FLIGHTS, b"g" * 16] if version >= 10 else [bytes(16)] * 2
        )
        assert len(everything.topics) == 1 and list(nothing.topics) == []

    serving(scenario)


def test_a_group_that_a_request_repeats_is_described_once() -> None:
    """An answer for each repetition would take gigabytes for a group of many members."""

    async def scenario(node: GroupNode) -> None:
        await member(node)
        ids = ["g", "none"] * 1_000
        every = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in ids]

        classic = await call(node, describe_groups, 6, DescribeGroupsRequest(groups=ids))
        modern = await call(node, consumer_group_describe, 1, ConsumerGroupDescribeRequest(group_ids=ids))
        offsets = await call(node, offset_fetch, 8, OffsetFetchRequest(groups=every))

        for answer in (classic, modern, offsets):
            assert [one.group_id for one in answer.groups] == ["g", "none"]

    serving(scenario)


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead_and_since_version_6_an_error_gotcha_25(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        await member(node)
        request = DescribeGroupsRequest(groups=["g", "x"], include_authorized_operations=version >= 3)

        stable, unknown = (await call(node, describe_groups, version, request)).groups

        assert (stable.group_state, stable.protocol_data, stable.error_code) == ("Stable", "range", 0)
        assert stable.members[0].member_assignment == b"all"
        assert stable.authorized_operations == (3400 if version >= 3 else -(2**31))
        assert unknown.group_state == "Dead"
        assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert unknown.error_message == ("Group x not found." if version >= 6 else None)

    serving(scenario)


@pytest.mark.parametrize(
    ("version", "states", "types", "listed"),
    [
        (0, (), (), ["g"]),
        (3, (), (), ["g"]),
        (4, ("Stable",), (), ["g"]),
        (4, ("EMPTY",), (), []),
        (5, (" stable ",), ("Classic",), ["g"]),
        (5, (), ("consumer",), []),
    ],
)
def test_groups_are_listed(version: int, states: list[str], types: list[str], listed: list[str]) -> None:
    async def scenario(node: GroupNode) -> None:
        await member(node)
        request = ListGroupsRequest(states_filter=states, types_filter=types)

        answer = await call(node, list_groups, version, request)

        assert [group.group_id for group in answer.groups] == listed

    serving(scenario)


@pytest.mark.parametrize("version", range(4))
def test_groups_are_deleted(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        await member(node)
        request = DeleteGroupsRequest(groups_names=["g", "x", "g"])

        results = (await call(node, delete_groups, version, request)).results

        assert [(each.group_id, each.error_code) for each in results] == [
            ("g", ErrorCode.NON_EMPTY_GROUP),
            ("x", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        if version >= 3:
            assert results[0].error_message == "The group is not empty."

    serving(scenario)


def test_offsets_are_deleted() -> None:
    async def scenario(node: GroupNode) -> None:
        await call(node, offset_commit, 9, commit_request(("flights", FLIGHTS, [0, 1])))
        request = OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in (0, 5)],
                )
                for name in ("flights", "gone")
            ],
        )

        answer = await call(node, offset_delete, 0, request)

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = [[each.error_code for each in topic.partitions] for topic in answer.topics]
        assert (answer.error_code, codes) == (0, [[0, unknown], [unknown, unknown]])
        everything = await call(node, offset_fetch, 7, OffsetFetchRequest(group_id="g", topics=None))
        assert [[each.partition_index for each in topic.partitions] for topic in everything.topics] == [[1]]

    serving(scenario)


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found_and_its_topic_made_gotcha_12(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        request = (
            FindCoordinatorRequest(key="g")
            if version < 4
            else FindCoordinatorRequest(coordinator_keys=["g", "h"], key_type=0)
        )

        answer = await call(node, find_coordinator, version, request)

        found = [answer] if version < 4 else list(answer.coordinators)
        assert {(each.node_id, each.host, each.port, each.error_code) for each in found} == {
            (1, "here", 9092, 0)
        }
        assert len(found) == (1 if version < 4 else 2)
        assert node.created == 1

    play(scenario)


@pytest.mark.parametrize("key_type", [2, 9])
def test_unknown_types_of_coordinators_are_rejected(key_type: int) -> None:
    async def scenario(node: GroupNode) -> None:
        request = FindCoordinatorRequest(coordinator_keys=["t"], key_type=key_type)

        answer = await call(node, find_coordinator, 6, request)

        assert answer.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
        assert node.created == 0

    play(scenario)


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_of_a_consumer_group_joins_stays_and_leaves_in_every_version(version: int) -> None:
    async def scenario(node: GroupNode) -> None:
        def heartbeat(member_id: str, epoch: int, **fields: Any) -> Any:
            request = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=member_id, member_epoch=epoch, **fields
            )
            return call(node, consumer_group_heartbeat, version, request)

        node.groups.change_topics(
            TopicsChanged(topics=ImageTopics(node.image), has_new_topics=True, changed=frozenset())
        )
        mine = "" if version == 0 else "mine"
        joined = await heartbeat(
            mine, 0, rebalance_timeout_ms=5_000, subscribed_topic_names=["flights"], topic_partitions=[]
        )

        assert (joined.error_code, joined.error_message, joined.member_epoch) == (0, None, 2)
        assert (joined.member_id == "mine") == (version == 1) and joined.member_id
        assert joined.heartbeat_interval_ms == 5_000
        assert joined.assignment.topic_partitions == [TopicPartitions(topic_id=FLIGHTS, partitions=[0, 1])]
        owned = [TopicPartitions(topic_id=FLIGHTS, partitions=[0, 1])]
        assert (await heartbeat(joined.member_id, 2, topic_partitions=owned)).assignment is None
        described = await call(
            node, consumer_group_describe, version, ConsumerGroupDescribeRequest(group_ids=["g", "none", ""])
        )
        group, unknown, nameless = described.groups
        assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "uniform")
        assert (group.group_epoch, group.assignment_epoch, len(group.members)) == (2, 2, 1)
        (member,) = group.members
        assert (member.member_id, member.client_host) == (joined.member_id, "/10.0.0.7")
        assert list(member.subscribed_topic_names) == ["flights"]
        assert [each.topic_name for each in member.assignment.topic_partitions] == ["flights"]
        assert member.target_assignment == member.assignment
        assert member.member_type == (1 if version >= 1 else -1)
        assert (unknown.error_code, unknown.error_message) == (69, "Group none not found.")
        assert group.rebalances is None
        asks = ConsumerGroupDescribeRequest(group_ids=["g", "none"], include_timeline=True)
        known, unknown = (await call(node, consumer_group_describe, version, asks)).groups
        (rebalance,) = known.rebalances
        assert [(one.cause, one.member_id) for one in rebalance.events] == [
            ("MemberJoined", joined.member_id)
        ]
        assert (rebalance.generation_before, rebalance.generation_after, rebalance.member_count) == (1, 2, 1)
        assert unknown.rebalances is None
        assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
        fenced = await heartbeat(joined.member_id, 3)
        assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert fenced.error_message.startswith("The consumer group member has a greater member epoch (3)")
        assert (await heartbeat(joined.member_id, -1)).member_epoch == -1
        refused = await heartbeat(mine, 0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST

    serving(scenario)


def test_before_version_1_a_member_needs_no_id_and_from_then_on_it_does() -> None:
    async def scenario(node: GroupNode) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=["flights"],
            topic_partitions=[],
        )

        assert (await call(node, consumer_group_heartbeat, 0, request)).error_code == 0
        refused = await call(node, consumer_group_heartbeat, 1, request)
        assert (refused.error_code, refused.error_message) == (42, "MemberId can't be empty.")

    serving(scenario)


def test_without_the_consumer_protocol_its_requests_are_not_served_as_with_kafka() -> None:
    async def scenario(node: GroupNode) -> None:
        node.image = replace(node.image, features={})
        heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)

        refused = await call(node, consumer_group_heartbeat, 1, heartbeat)
        described = await call(
            node, consumer_group_describe, 1, ConsumerGroupDescribeRequest(group_ids=["g", "h"])
        )

        assert (refused.error_code, refused.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
        assert [(one.group_id, one.error_code) for one in described.groups] == [
            ("g", ErrorCode.UNSUPPORTED_VERSION),
            ("h", ErrorCode.UNSUPPORTED_VERSION),
        ]

    serving(scenario)
