"""Produce: the response of a leader, by version, acks and errors of the request."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import build_batch, iterate_records, seal_batch
from ottla.logstore.record_batch import HEADER_SIZE, check_batch, read_header
from ottla.logstore.record_walk import IS_COMPILED
from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api import produce, produce_append
from ottla.node.net.answers import CloseConnection, Delayed
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.node.work.fair_pool import FairPool, GivenUp
from ottla.node.work.turns import at_once
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch, context

# Checking more than 8 KiB of records in Python blocks the loop.
IN_PYTHON = not IS_COMPILED


@pytest.fixture
def world() -> ReplicaWorld:
    return ReplicaWorld()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def request(
    records: Any, *, topic: str = "t", topic_id: bytes = bytes(16), index: int = 0, **fields: Any
) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        **{"acks": 1, "timeout_ms": 1000, **fields},
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def send(
    world: ReplicaWorld, message: ProduceRequest, version: int = 9, client_id: str = "test"
) -> PartitionProduceResponse:
    response = produce.handle(world, context(0, version, client_id), message)  # type: ignore[arg-type]
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


def test_a_batch_gets_its_offsets(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append(count=2)

    answer = send(world, request(batch(3)))

    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 2, 0)
    assert answer.log_append_time_ms == -1
    assert world.partition().log.log_end_offset == 5


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_every_kind_of_acks_appends(world: ReplicaWorld, acks: int) -> None:
    world.create_topic()

    answer = produce.handle(world, context(0, 9), request(batch(), acks=acks))  # type: ignore[arg-type]

    assert (answer is None) == (acks == 0)
    assert world.partition().log.log_end_offset == 1


def test_acks_zero_is_never_answered_and_closes_on_an_error(world: ReplicaWorld) -> None:
    with pytest.raises(CloseConnection):
        produce.handle(world, context(0, 9), request(batch(), acks=0))  # type: ignore[arg-type]


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused(world: ReplicaWorld, acks: int) -> None:
    world.create_topic()

    answer = send(world, request(batch(), acks=acks))

    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert answer.base_offset == -1


def test_a_leader_that_the_controller_cannot_reach_takes_nothing(world: ReplicaWorld) -> None:
    world.create_topic()
    world.is_cut_off = True

    answer = send(world, request(batch()))

    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_null_records_are_refused(world: ReplicaWorld) -> None:
    world.create_topic()

    assert send(world, request(None)).error_code == ErrorCode.INVALID_RECORD


def test_unknown_partitions_are_named_with_their_error(world: ReplicaWorld) -> None:
    world.create_topic()

    answer = send(world, request(batch(), index=7))

    assert (answer.index, answer.error_code) == (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert send(world, request(batch(), topic="x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_go_by_id_since_version_13(world: ReplicaWorld) -> None:
    topic = world.create_topic()

    assert send(world, request(batch(), topic="", topic_id=topic.topic_id), 13).error_code == 0
    unknown = send(world, request(batch(), topic="", topic_id=b"?" * 16), 13)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_zstd_needs_version_7(world: ReplicaWorld) -> None:
    world.create_topic()
    records = batch(compression=Compression.ZSTD)

    assert send(world, request(records), 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert send(world, request(records), 7).error_code == 0


def test_internal_topics_are_written_by_admin_tools_only(world: ReplicaWorld) -> None:
    world.create_topic("__consumer_offsets")
    message = request(batch(), topic="__consumer_offsets")

    assert send(world, message).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert send(world, message, client_id="__admin_client").error_code == 0

    world.administrators.allows = lambda connection, operation: False
    refused = send(world, message, client_id="__admin_client")
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_repeated_batch_has_its_first_offset(world: ReplicaWorld) -> None:
    world.create_topic()

    def idempotent(sequence: int) -> ProduceRequest:
        return request(batch(2, producer_id=7, producer_epoch=0, base_sequence=sequence))

    assert send(world, idempotent(0)).base_offset == 0
    assert send(world, idempotent(2)).base_offset == 2
    again = send(world, idempotent(0))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert send(world, idempotent(9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_refused_batch_names_its_records(world: ReplicaWorld) -> None:
    world.create_topic()
    late = world.clock.now_ms() + 2 * 3_600_000

    answer = send(world, request(batch(now_ms=late)))

    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == [0]
    assert answer.error_message


def test_the_broker_sets_the_timestamp_if_the_topic_uses_log_append_time(world: ReplicaWorld) -> None:
    world.create_topic(config=LogConfig(message_timestamp_type="LogAppendTime"))

    assert send(world, request(batch())).log_append_time_ms == world.clock.now_ms()


def test_a_partition_named_twice_is_appended_twice(world: ReplicaWorld) -> None:
    world.create_topic()
    data = [PartitionProduceData(index=0, records=batch()) for _ in range(2)]
    message = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])

    response = produce.handle(world, context(0, 9), message)  # type: ignore[arg-type]

    assert isinstance(response, ProduceResponse)
    assert [one.base_offset for one in response.responses[0].partition_responses] == [0, 1]


def test_a_wrong_leader_is_answered_with_the_right_one(world: ReplicaWorld) -> None:
    world.create_topic(leader=OTHER_ID, leader_epoch=4, replicas=(NODE_ID, OTHER_ID))

    response = produce.handle(world, context(0, 10), request(batch()))  # type: ignore[arg-type]

    assert isinstance(response, ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (OTHER_ID, 4)
    assert [(node.node_id, node.host) for node in response.node_endpoints] == [(OTHER_ID, "host2")]


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("version", [9, 13])
def test_a_request_waits_for_the_metadata_if_the_leader_has_just_gone_down(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop, acks: int, version: int
) -> None:
    async def scenario() -> None:
        world.create_topic(leader=OTHER_ID, replicas=(NODE_ID, OTHER_ID))
        world.metadata.suspects.suspect(OTHER_ID)
        message = request(batch(), topic_id=b"t".ljust(16, b"."), acks=acks)
        delayed = produce.handle(world, context(0, version), message)  # type: ignore[arg-type]
        assert isinstance(delayed, Delayed) and not delayed.is_carried_out
        waiting = asyncio.ensure_future(delayed.future)
        await asyncio.sleep(0)
        assert not waiting.done()

        world.create_topic(leader=NODE_ID, leader_epoch=1, replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
        world.metadata.suspects.trust(OTHER_ID)
        answer = delayed.answer(await asyncio.wait_for(waiting, 60))
        assert world.partition().log.log_end_offset == 1
        assert answer is None or answer.responses[0].partition_responses[0].error_code == 0

    loop.run_until_complete(scenario())


def test_a_request_for_partitions_of_other_leaders_is_rejected_at_once_after_a_broker_went_down(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    async def scenario() -> None:
        world.create_topic(leader=OTHER_ID, replicas=(NODE_ID, OTHER_ID))
        world.metadata.suspects.suspect(OTHER_ID + 1)
        assert send(world, request(batch())).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    loop.run_until_complete(scenario())


def wait_for_all(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop, timeout_ms: int, then: Any
) -> PartitionProduceResponse:
    """Produce with acks=all, call `then`, and return the response."""

    async def scenario() -> PartitionProduceResponse:
        message = request(batch(), acks=-1, timeout_ms=timeout_ms)
        delayed = produce.handle(world, context(0, 9), message)  # type: ignore[arg-type]
        assert isinstance(delayed, Delayed)
        then()
        response = delayed.answer(await delayed.future)
        assert isinstance(response, ProduceResponse)
        return response.responses[0].partition_responses[0]

    return loop.run_until_complete(scenario())


def test_acks_all_waits_for_the_replicas_in_sync(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))

    answer = wait_for_all(world, loop, 10_000, lambda: world.partition().follower_fetched(OTHER_ID, 1))

    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_acks_all_times_out(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))

    answer = wait_for_all(world, loop, 1, lambda: None)

    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_acks_all_fails_when_the_leader_changes(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))

    answer = wait_for_all(
        world,
        loop,
        10_000,
        lambda: world.create_topic(replicas=(NODE_ID, OTHER_ID), leader=OTHER_ID, leader_epoch=1),
    )

    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def produce_in_thread(
    loop: asyncio.AbstractEventLoop, world: ReplicaWorld, message: ProduceRequest
) -> list[PartitionProduceResponse]:
    """Return the answers to a request whose batches are opened in a thread."""
    waiting = produce.handle(world, context(0, 9), message)  # type: ignore[arg-type]
    assert isinstance(waiting, Delayed)
    assert waiting.ends_with_client
    response = loop.run_until_complete(settled(waiting))
    return [one for topic in response.responses for one in topic.partition_responses]


def compressed(*values: bytes, codec: Compression = Compression.GZIP) -> bytes:
    now_ms = ReplicaWorld().clock.now_ms()
    return bytes(build_batch([(b"k", value, now_ms, ()) for value in values], compression=codec))


def test_recompressing_a_batch_does_not_block_the_loop(
    loop: asyncio.AbstractEventLoop, world: ReplicaWorld
) -> None:
    world.create_topic(config=LogConfig(compression_type="lz4"))
    value = bytes(range(256)) * 100

    (answer,) = produce_in_thread(loop, world, request(compressed(value, value)))

    log = world.partition().log
    assert (answer.error_code, answer.base_offset, log.log_end_offset) == (0, 0, 2)
    kept = log.segments[0].read_batch(0, log.size_bytes)
    assert check_batch(kept).compression is Compression.LZ4
    assert [record.value for record in iterate_records(kept)] == [value, value]


def test_one_of_several_opened_batches_may_be_rejected(
    loop: asyncio.AbstractEventLoop, world: ReplicaWorld
) -> None:
    world.create_topic(partitions=2, config=LogConfig(compression_type="uncompressed"))
    good = compressed(bytes(range(256)) * 100)
    bad = bytes(seal_batch(read_header(good), b"\xee" * (len(good) - HEADER_SIZE)))
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate((bad, good))]
    topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=data)

    answers = produce_in_thread(loop, world, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]))

    assert [one.error_code for one in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert [world.partition(index=index).log.log_end_offset for index in (0, 1)] == [0, 1]


def tiny_records(count: int, codec: Compression) -> bytearray:
    """Return a batch of `count` records of some ten bytes, which is small when it is compressed."""
    now_ms = ReplicaWorld().clock.now_ms()
    return build_batch([(b"k", b"", now_ms, ())] * count, compression=codec)


@pytest.mark.parametrize(
    ("records", "settings", "expected"),
    [
        (compressed(bytes(range(256)) * 10), {"compression_type": "gzip"}, False),
        (compressed(bytes(range(256)) * 100), {"compression_type": "zstd"}, True),
        (compressed(b"small"), {"compression_type": "zstd"}, False),
        (compressed(bytes(9000), codec=Compression.NONE), {"compression_type": "zstd"}, True),
        (compressed(bytes(7000), codec=Compression.NONE), {"compression_type": "zstd"}, False),
        (
            compressed(bytes(9000), codec=Compression.NONE),
            {"message_timestamp_type": "LogAppendTime"},
            IN_PYTHON,
        ),
        (compressed(bytes(range(256)) * 10), {}, False),
        (compressed(bytes(9000)), {}, True),  # few bytes decompress to many
        (compressed(bytes(9000)), {"validate_records": False}, False),
        (tiny_records(5_000, Compression.NONE), {}, IN_PYTHON),
        (tiny_records(20_000, Compression.NONE), {}, True),
        (tiny_records(20_000, Compression.NONE), {"validate_records": False}, False),
        (tiny_records(40_000, Compression.ZSTD), {}, True),
        (compressed(bytes(900_000), codec=Compression.NONE), {}, IN_PYTHON),  # one record
        (b"\0" * 9000, {"compression_type": "zstd"}, False),
    ],
)
def test_only_slow_batches_are_opened_and_checked_off_the_loop(
    world: ReplicaWorld, records: bytes, settings: dict[str, Any], expected: bool
) -> None:
    world.create_topic(config=LogConfig(**settings))
    message = request(records)
    append = produce_append.ProduceAppend(world, context(0, 9), message)  # type: ignore[arg-type]

    assert bool(at_once(append.steps_to_open(message))) is expected


def test_batches_beyond_the_limit_of_the_loop_are_checked_off_it(world: ReplicaWorld) -> None:
    world.create_topic(partitions=30)
    one = tiny_records(10_000, Compression.NONE)
    data = [PartitionProduceData(index=index, records=bytes(one)) for index in range(30)]
    topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=data)
    message = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    append = produce_append.ProduceAppend(world, context(0, 9), message)  # type: ignore[arg-type]

    on_the_loop = 0 if IN_PYTHON else produce_append.AT_ONCE_BYTES // len(one)
    assert len(at_once(append.steps_to_open(message))) == 30 - on_the_loop


def test_batches_of_a_request_with_very_many_partitions_are_opened_off_the_loop_too(
    loop: asyncio.AbstractEventLoop, world: ReplicaWorld
) -> None:
    world.create_topic(config=LogConfig(compression_type="lz4"))
    request_context = context(0, 9)
    request_context.is_large = True

    async def answered() -> Any:
        message = request(compressed(bytes(range(256)) * 100))
        return await settled(produce.handle(world, request_context, message))  # type: ignore[arg-type]

    response = loop.run_until_complete(answered())

    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    log = world.partition().log
    assert check_batch(log.segments[0].read_batch(0, log.size_bytes)).compression is Compression.LZ4


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_large_request_of_a_disconnected_client_is_opened_and_appended_only_with_acks_zero(
    loop: asyncio.AbstractEventLoop, world: ReplicaWorld, acks: int
) -> None:
    world.create_topic()
    world.batch_pool = FairPool("batches", threads=1, max_cpu_s=60.0, is_open=lambda number: False)
    request_context = context(0, 9)
    request_context.is_large = True

    async def answered() -> Any:
        message = request(compressed(bytes(9_000)), acks=acks)
        return await settled(produce.handle(world, request_context, message))  # type: ignore[arg-type]

    if acks == 0:
        loop.run_until_complete(answered())
    else:
        with pytest.raises(GivenUp):
            loop.run_until_complete(answered())

    assert world.partition().log.log_end_offset == (1 if acks == 0 else 0)


def test_batches_beyond_the_allowance_of_a_request_time_out(
    loop: asyncio.AbstractEventLoop, world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create_topic(partitions=3)
    monkeypatch.setattr(produce_append, "MAX_STEPS", 10)
    bomb = compressed(bytes(2_000_000), bytes(100), codec=Compression.ZSTD)  # eight pieces
    data = [PartitionProduceData(index=index, records=memoryview(bomb)) for index in range(3)]
    topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=data)

    answers = produce_in_thread(loop, world, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]))

    assert [one.error_code for one in answers] == [0, *[ErrorCode.REQUEST_TIMED_OUT] * 2]
    assert [world.partition(index=index).log.log_end_offset for index in range(3)] == [2, 0, 0]
