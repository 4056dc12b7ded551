"""With `flush.messages`, no batch is acknowledged or readable before its flush, and the loop never waits."""

import asyncio
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.groupcoord.request_token import Token
from ottla.logstore.compression import Compression
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators.coordinator_log import CoordinatorLog
from ottla.node.kafka_api import produce
from ottla.node.net.answers import Delayed, Pending
from ottla.node.replica.delayed_produce import RequiredOffset
from ottla.node.wire import codec
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.node.fakes import connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.replica.replica_world import CONNECTION, NODE_ID, ReplicaWorld, batch, context

PEER = connection_of(CONNECTION)
WAIT_S = 30.0


class FlushingNode:
    """A node whose topic `t` is flushed after `flush_messages` records."""

    def __init__(self, flush_messages: int = 1) -> None:
        self.world = ReplicaWorld()
        self.world.create_topic(partitions=2, config=LogConfig(flush_messages=flush_messages))
        self.disk: MemoryDisk = self.world.log_manager.disk
        for partition in self.world.replica_manager:
            partition.log.on_failure = lambda log, _: self.world.replica_manager.take_offline(
                [log.topic_partition]
            )
        self.syncs = 0  # of segments

    @property
    def partition(self) -> Any:
        return self.world.partition()

    def produce(self, acks: int, *, index: int = 0, timeout_ms: int = 1_000, **fields: Any) -> Any:
        data = PartitionProduceData(index=index, records=batch(**fields))
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name="t", partition_data=[data])]
        )
        return produce.handle(cast(Any, self.world), context(0, 9), request)

    @contextmanager
    def slow_disk(self) -> Iterator[threading.Event]:
        """Hold up each flush of a segment until the event is set, and fail if the loop's thread flushes."""
        ready, loop_thread = threading.Event(), threading.get_ident()

        def watch(operation: str, path: Path) -> None:
            if operation == "sync" and path.suffix == ".log":
                self.syncs += 1
                assert threading.get_ident() != loop_thread
                assert ready.wait(WAIT_S)

        self.disk.watch = watch
        try:
            yield ready
        finally:
            ready.set()
            self.disk.watch = None

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def with_flusher() -> None:
            flushing = asyncio.create_task(self.world.flusher.run())
            try:
                async with asyncio.timeout(WAIT_S):
                    await scenario
            finally:
                flushing.cancel()

        asyncio.run(with_flusher())


async def response_of(answer: Any) -> PartitionProduceResponse:
    assert isinstance(answer, Delayed)
    response = answer.answer(await answer.future)
    return cast(PartitionProduceResponse, response.responses[0].partition_responses[0])


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_waits_for_the_disk_and_the_loop_does_not(acks: int) -> None:
    node = FlushingNode()

    async def scenario() -> None:
        with node.slow_disk() as ready:
            answer = node.produce(acks)
            for _ in range(20):
                await asyncio.sleep(0)
            partition = node.partition
            assert not answer.future.done() and partition.log.high_watermark == 0
            assert partition.readable_bytes(0, 1_000, FetchIsolation.HIGH_WATERMARK, enough_bytes=1) == 0
            ready.set()
            assert (await response_of(answer)).base_offset == 0
        assert node.partition.log.recovery_point == node.partition.log.high_watermark == 1

    node.run(scenario())


def test_batches_that_come_during_a_flush_share_the_next() -> None:
    node = FlushingNode()

    async def scenario() -> None:
        with node.slow_disk() as ready:
            answers = [node.produce(1)]
            while not node.syncs:
                await asyncio.sleep(0.001)
            answers += [node.produce((1, -1)[number % 2]) for number in range(20)]
            ready.set()
            responses = [await response_of(answer) for answer in answers]
        assert [one.base_offset for one in responses] == list(range(21))
        assert node.syncs == 2

    node.run(scenario())


def test_only_a_batch_beyond_flush_messages_waits() -> None:
    node = FlushingNode(flush_messages=3)

    async def scenario() -> None:
        with node.slow_disk() as ready:
            assert not isinstance(node.produce(1, count=2), Delayed)
            assert node.partition.log.high_watermark == 2
            answer = node.produce(1)
            assert node.partition.log.high_watermark == 2 and not answer.future.done()
            ready.set()
            assert (await response_of(answer)).base_offset == 2
            assert not isinstance(node.produce(1, count=2), Delayed)

    node.run(scenario())


def test_a_duplicate_is_acknowledged_no_earlier_than_the_first() -> None:
    node = FlushingNode()

    async def scenario() -> None:
        with node.slow_disk() as ready:
            fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
            answers = [node.produce(1, **fields) for _ in range(2)]
            assert not any(answer.future.done() for answer in answers)
            ready.set()
            assert [(await response_of(answer)).base_offset for answer in answers] == [0, 0]

    node.run(scenario())


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_disk_fails_the_waiting_requests(acks: int) -> None:
    node = FlushingNode()

    async def scenario() -> None:
        with node.slow_disk() as ready:
            answer = node.produce(acks)
            node.disk.fail_at, node.disk.stays_broken = node.disk.steps, True
            ready.set()
            assert (await response_of(answer)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError) as refused:
            _ = node.partition
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    node.run(scenario())


def test_the_timeout_of_a_request_does_not_apply_to_the_disk() -> None:
    node = FlushingNode()

    async def scenario() -> None:
        with node.slow_disk() as ready:
            answer = node.produce(1, timeout_ms=0)
            await asyncio.sleep(0.01)
            assert not answer.future.done()
            ready.set()
            assert (await response_of(answer)).error_code == ErrorCode.NONE

    node.run(scenario())


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("together", [1, 3])
def test_requests_with_a_known_head_wait_like_others(acks: int, together: int) -> None:
    node = FlushingNode()
    dispatcher = dispatcher_of(node.world)

    def frame(correlation_id: int) -> bytes:
        data = PartitionProduceData(index=0, records=batch())
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[topic])
        return b"".join(codec.encode_request(0, 9, correlation_id, "test", request))

    async def answer_to(served: Any) -> bytes:
        assert isinstance(served, Pending) and served.is_carried_out
        return b"".join(cast(Any, served.encode(await served.awaitable)))

    async def scenario() -> None:
        for _ in range(2):
            first = dispatcher.serve(PEER, memoryview(bytearray(frame(0))[4:]))
            whole = await answer_to(first)
        with node.slow_disk() as ready:
            view = memoryview(bytearray(b"".join(frame(number) for number in range(together))))
            if together == 1:
                served = dispatcher.serve(PEER, view[4:])
            else:
                run = dispatcher.serve_run(PEER, view, 0, len(view))
                assert run is not None and run.requests == together
                served = run.answers
            assert isinstance(served, Pending) and not cast(Any, served.awaitable).done()
            ready.set()
            answers = await answer_to(served)
        size = len(whole)
        for number in range(together):
            one = answers[number * size : (number + 1) * size]
            assert struct.unpack_from(">ii", one) == (size - 4, number)
            response = codec.decode_response(0, 9, one, 4)[1]
            assert response.responses[0].partition_responses[0].base_offset == number + 2

    node.run(scenario())


def test_coordinators_and_markers_wait_as_well() -> None:
    node = FlushingNode()
    answered: list[object] = []
    log: CoordinatorLog[str] = CoordinatorLog(
        partition=node.partition,
        replicas=node.world.replica_manager,
        clock=node.world.clock,
        commit_timeout_ms=60_000,
        compression=Compression.NONE,
        max_batch_bytes=1_000,
        answer=lambda token, answer: answered.append(answer),
        failed=answered.append,
    )

    async def scenario() -> None:
        with node.slow_disk() as ready:
            log.append([(b"key", b"value")])
            log.answer_when_committed(cast(Token, None), "committed")
            for _ in range(20):
                await asyncio.sleep(0)
            assert answered == []
            result = log.append_marker(
                EndTransactionMarker(ControlType.COMMIT, 0),
                producer_id=7,
                producer_epoch=0,
                transaction_version=1,
            )
            place = RequiredOffset(result.last_offset + 1, node.partition.leader_epoch)
            marked = node.world.replica_manager.delay_produce({node.partition: place}, 60_000)
            assert not marked.done()
            ready.set()
            assert (await marked)[node.partition] is ErrorCode.NONE
        assert answered == ["committed"] and node.partition.log.recovery_point == 2

    node.run(scenario())


def test_a_log_that_was_moved_meanwhile_is_flushed_in_its_new_place() -> None:
    node = FlushingNode()
    copy = node.world.log_manager.get_or_create(
        node.partition.topic_partition, bytes(16), LogConfig(flush_messages=1), is_new=True
    )

    async def scenario() -> None:
        with node.slow_disk() as ready:
            answer = node.produce(1)
            log = node.partition.log
            records = log.read(0, 1_000, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
            copy.append_as_follower(records.slice.read())
            node.world.replica_manager.replace_log(copy.topic_partition, copy)
            assert not answer.future.done()
            ready.set()
            assert (await response_of(answer)).error_code == ErrorCode.NONE
        assert copy.recovery_point == 1

    node.run(scenario())


def test_a_leader_that_loses_its_role_meanwhile_acknowledges_nothing() -> None:
    node = FlushingNode()

    async def scenario() -> None:
        with node.slow_disk():
            answer = node.produce(1)
            node.world.create_topic(partitions=2, leader=NODE_ID, leader_epoch=1)
            assert (await response_of(answer)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    node.run(scenario())
