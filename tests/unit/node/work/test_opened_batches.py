"""Recompressed batches have a limit of memory until they are appended."""

import asyncio

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.kafka_api import produce
from ottla.node.net.answers import Delayed
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.node.work.opened_batches import OpenedBatches
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, context


def test_a_batch_counts_while_it_is_held() -> None:
    batches = OpenedBatches(100)

    first = batches.hold(300)  # a single batch
    with pytest.raises(KafkaError) as refused:
        batches.hold(1)
    assert (refused.value.code, batches.used_bytes) == (ErrorCode.REQUEST_TIMED_OUT, 300)
    del first

    assert batches.used_bytes == 0
    held = [batches.hold(50), batches.hold(50)]
    assert batches.used_bytes == 100
    held.clear()
    assert batches.used_bytes == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_batches_without_room_get_a_retriable_error_and_none_waits_for_replicas_in_memory(acks: int) -> None:
    world = ReplicaWorld()
    world.create_topic(
        partitions=3, replicas=(NODE_ID, OTHER_ID), config=LogConfig(compression_type="uncompressed")
    )
    world.opened_batches = OpenedBatches(150_000)
    now_ms = world.clock.now_ms()
    small = bytes(build_batch([(b"k", bytes(100_000), now_ms, ())], compression=Compression.ZSTD))
    data = [PartitionProduceData(index=index, records=memoryview(small)) for index in range(3)]
    topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=data)

    async def answered() -> ProduceResponse:
        request = ProduceRequest(acks=acks, timeout_ms=20, topic_data=[topic])
        result = produce.handle(world, context(0, 9), request)  # type: ignore[arg-type]
        while isinstance(result, Delayed):
            waited_for = await result.future
            result = result.answer(waited_for)
            assert world.opened_batches.used_bytes == 0
        assert isinstance(result, ProduceResponse)
        return result

    response = asyncio.run(answered())

    assert [world.partition(index=index).log.log_end_offset for index in range(3)] == [1, 0, 0]
    assert [one.error_code for one in response.responses[0].partition_responses][1:] == [
        ErrorCode.REQUEST_TIMED_OUT
    ] * 2
