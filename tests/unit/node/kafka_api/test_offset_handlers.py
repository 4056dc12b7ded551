"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers over real logs on a disk in memory."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_reader import SegmentsChanged
from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api import delete_records, describe_producers, list_offsets, offset_for_leader_epoch
from ottla.node.net.answers import BuiltInThread
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.node.wire.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from ottla.node.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.node.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.node.work.turns import STEPS_PER_TURN
from tests.unit.logstore import log_maker
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch, context

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


@pytest.fixture
def world() -> ReplicaWorld:
    return ReplicaWorld()


def list_one(
    world: ReplicaWorld, timestamp: int, version: int = 11, *, index: int = 0, epoch: int = -1, **fields: Any
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(
        **{"replica_id": -1, **fields}, topics=[ListOffsetsTopic(name="t", partitions=[wanted])]
    )
    result = list_offsets.handle(world, context(2, version), request)  # type: ignore[arg-type]
    response: ListOffsetsResponse = asyncio.run(settled(result))
    return response.topics[0].partitions[0]


def place(found: ListOffsetsPartitionResponse) -> tuple[int, int, int, int]:
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def test_each_special_timestamp_finds_its_offset(world: ReplicaWorld) -> None:
    world.create_topic(leader_epoch=3)
    start = world.clock.now_ms()
    for _ in range(3):
        world.append(count=2)
        world.clock.advance(1000)
    world.partition().delete_records_before(2)

    assert place(list_one(world, EARLIEST)) == (0, -1, 2, 3)
    assert place(list_one(world, LATEST)) == (0, -1, 6, 3)
    assert place(list_one(world, start + 1)) == (0, start + 1000, 2, 3)
    assert place(list_one(world, start + 2000)) == (0, start + 2000, 4, 3)
    assert place(list_one(world, start + 5000)) == (0, -1, -1, -1)
    assert place(list_one(world, MAX_TIMESTAMP)) == (0, start + 2000, 4, 3)
    assert place(list_one(world, EARLIEST_LOCAL)) == (0, -1, 2, 3)
    assert place(list_one(world, LATEST_TIERED)) == (0, -1, -1, -1)


def test_readers_of_committed_records_see_no_open_transactions(world: ReplicaWorld) -> None:
    world.create_topic()
    log = world.partition().log
    log_maker.send(log, 7, 0, timestamp=1_000)
    log_maker.send(log, 8, 0, timestamp=2_000, is_transactional=True)
    log.update_high_watermark(2)

    timestamps = (LATEST, 1_500, MAX_TIMESTAMP)

    assert [list_one(world, one, isolation_level=0).offset for one in timestamps] == [2, 1, 1]
    assert [list_one(world, one, isolation_level=1).offset for one in timestamps] == [1, -1, -1]


def test_batches_are_opened_off_the_loop(world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create_topic(leader_epoch=3)
    start = world.clock.now_ms()
    world.append(count=2)
    ran: list[Callable[..., Any]] = []

    async def submit(client: ConnectionInfo, work: Callable[..., Any], **options: Any) -> Any:
        ran.append(work)
        return work(lambda: None)

    monkeypatch.setattr(world.time_pool, "submit", submit)

    for timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        list_one(world, timestamp)
    assert ran == []
    assert place(list_one(world, start)) == place(list_one(world, MAX_TIMESTAMP)) == (0, start, 0, 3)
    assert len(ran) == 2


@pytest.mark.parametrize("times", [1, 5])
def test_a_segment_deleted_during_a_search_is_not_a_disk_failure(
    world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    world.create_topic(leader_epoch=3)
    start = world.clock.now_ms()
    world.append(count=2)
    left = times

    async def submit(client: ConnectionInfo, work: Callable[..., Any], **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left >= 0:
            raise SegmentsChanged
        return work(lambda: None)

    monkeypatch.setattr(world.time_pool, "submit", submit)

    assert place(list_one(world, start)) == (0, start, 0, 3)
    assert world.partition().log.failure is None


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11), (-7, 99)],
)
def test_special_timestamps_are_unsupported_before_their_version(
    world: ReplicaWorld, timestamp: int, first_version: int
) -> None:
    world.create_topic()

    codes = {version: list_one(world, timestamp, version).error_code for version in range(1, 12)}

    assert codes == {
        version: ErrorCode.UNSUPPORTED_VERSION if version < first_version else 0 for version in codes
    }


def test_consumers_see_the_high_watermark_and_others_the_end(world: ReplicaWorld) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))
    world.append(count=5)
    world.partition().follower_fetched(OTHER_ID, 3)

    assert list_one(world, LATEST).offset == 3
    assert list_one(world, LATEST, replica_id=-2).offset == 5
    assert list_one(world, world.clock.now_ms()).offset == 0


def test_offsets_come_from_the_leader_of_the_epoch(world: ReplicaWorld) -> None:
    world.create_topic(leader_epoch=5)

    assert list_one(world, LATEST, epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert list_one(world, LATEST, epoch=6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_one(world, LATEST, index=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.create_topic(leader_epoch=6, leader=OTHER_ID, replicas=(NODE_ID, OTHER_ID))
    assert list_one(world, LATEST).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def list_all(world: ReplicaWorld, partitions: int, *, is_large: bool = False) -> list[int]:
    """Return the error codes of lookups by time in `partitions` partitions with one request."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=1) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)])
    of_request = context(2, 11)
    of_request.is_large = is_large

    async def answered() -> ListOffsetsResponse:
        result = list_offsets.handle(world, of_request, request)  # type: ignore[arg-type]
        response: ListOffsetsResponse = await settled(result)
        return response

    return [one.error_code for one in asyncio.run(answered()).topics[0].partitions]


@pytest.mark.parametrize("is_large", [False, True])
def test_lookups_beyond_the_allowance_of_a_request_time_out(
    world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    partitions = 600
    world.create_topic(partitions=partitions)
    submit, begun = world.time_pool.submit, []

    def costly(client: ConnectionInfo, work: Callable[..., Any], **options: Any) -> Any:
        def search(pause: Callable[[], None]) -> Any:
            begun.append(work)
            for _ in range(10):  # as many pieces as for a batch that decompresses to 2.5 MiB
                pause()
            return work(pause)

        return submit(client, search, **options)

    monkeypatch.setattr(world.time_pool, "submit", costly)
    monkeypatch.setattr(list_offsets, "MAX_STEPS", 95)

    codes = list_all(world, partitions, is_large=is_large)

    assert codes == [0] * 9 + [ErrorCode.REQUEST_TIMED_OUT] * (partitions - 9)
    assert len(begun) == 10
    assert list_all(world, 9) == [0] * 9, "the next request has an allowance of its own"


def end_of(world: ReplicaWorld, epoch: int, current: int = -1) -> EpochEndOffset:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
    response = offset_for_leader_epoch.handle(world, context(23, 4), request)  # type: ignore[arg-type]
    return response.topics[0].partitions[0]


def test_the_end_offset_of_an_epoch_or_of_the_one_before_it_is_found(world: ReplicaWorld) -> None:
    world.create_topic(leader_epoch=1)
    world.append(count=5)
    world.create_topic(leader_epoch=3)
    world.append(count=5)

    found = {
        epoch: (end_of(world, epoch).leader_epoch, end_of(world, epoch).end_offset) for epoch in range(5)
    }

    assert found == {0: (0, 0), 1: (1, 5), 2: (1, 5), 3: (3, 10), 4: (-1, -1)}
    assert all(end_of(world, epoch).error_code == 0 for epoch in range(5))
    assert end_of(world, 1, current=2).error_code == ErrorCode.FENCED_LEADER_EPOCH


def delete(
    world: ReplicaWorld, offset: int, topic: str = "t", index: int = 0
) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])])
    response = asyncio.run(delete_records.handle(world, context(21, 2), request))  # type: ignore[arg-type]
    return response.topics[0].partitions[0]


def test_records_are_deleted_and_the_low_watermark_is_returned(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append(count=10)

    assert (delete(world, 4).error_code, delete(world, 4).low_watermark) == (0, 4)
    assert delete(world, -1).low_watermark == 10
    assert (delete(world, 11).error_code, delete(world, 11).low_watermark) == (1, -1)
    assert delete(world, 0, index=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deletion_that_a_restart_would_undo_is_not_answered_with_success(
    world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create_topic()
    world.append(count=10)
    partition = world.partition()

    async def fails(*_: str) -> None:
        partition.log.flush_failed(OSError("the disk is full"))
        world.replica_manager.take_offline([partition.topic_partition])

    monkeypatch.setattr(world.maintenance, "checkpoint", fails)

    assert delete(world, 4).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (("compact",), ErrorCode.POLICY_VIOLATION),
        (("compact", "delete"), ErrorCode.NONE),
        (("delete",), ErrorCode.NONE),
    ],
)
def test_compacted_topics_keep_their_records(
    world: ReplicaWorld, policy: tuple[str, ...], code: ErrorCode
) -> None:
    world.create_topic(config=LogConfig(cleanup_policy=policy))

    assert delete(world, 0).error_code == code


def test_internal_topics_keep_their_records(world: ReplicaWorld) -> None:
    world.create_topic("__consumer_offsets")

    assert delete(world, 0, "__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def producers(world: ReplicaWorld, topic: str, index: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    response = describe_producers.handle(world, context(61, 0), request)  # type: ignore[arg-type]
    return response.topics[0].partitions[0]


def test_very_many_producers_are_described_in_turns_and_once(world: ReplicaWorld) -> None:
    world.create_topic()
    count = 3 * STEPS_PER_TURN
    for producer_id in range(count):
        world.partition().append_as_leader(
            batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0),
            required_acks=1,
            now_ms=world.clock.now_ms(),
            produce_version=9,
        )
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0] * 100)])
    turns = 0

    async def scenario() -> Any:
        nonlocal turns
        answer = asyncio.ensure_future(describe_producers.handle(world, context(61, 0), request))  # type: ignore[arg-type]
        while not answer.done():
            turns += 1
            await asyncio.sleep(0)
        return answer.result()

    answer = asyncio.run(scenario())

    assert isinstance(answer, BuiltInThread) and turns >= 3
    (described,) = answer.make().topics[0].partitions
    assert [one.producer_id for one in described.active_producers] == list(range(count))


def test_active_producers_are_described(world: ReplicaWorld) -> None:
    world.create_topic()
    world.partition().append_as_leader(
        batch(3, producer_id=7, producer_epoch=2, base_sequence=0),
        required_acks=1,
        now_ms=world.clock.now_ms(),
        produce_version=9,
    )

    (found,) = producers(world, "t").active_producers

    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (7, 2, 2)
    assert (found.last_timestamp, found.current_txn_start_offset) == (world.clock.now_ms(), -1)
    assert producers(world, "t", 5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producers(world, "a/b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
