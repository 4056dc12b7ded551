"""Which partitions a node hosts: a large topic never stops the loop, and is served from its first moment."""

import asyncio

import pytest

from logstore.errors import ErrorCode, KafkaError
from logstore.producer_state import ProducerEntry
from logstore.topic_partition import TopicPartition
from node.replica import predecessors
from node.replica.replica_manager import HOSTED_AT_ONCE
from tests.unit.node.replica_world import ReplicaWorld, batch


@pytest.fixture
def world() -> ReplicaWorld:
    world = ReplicaWorld()
    world.create_topic("first")  # what is there at start is hosted whole; this is past
    return world


def test_a_small_topic_is_made_before_the_change_is_answered(world: ReplicaWorld) -> None:
    world.create_topic("small", partitions=HOSTED_AT_ONCE)

    assert len(world.replica_manager) == 1 + HOSTED_AT_ONCE


def test_of_a_large_topic_some_logs_are_made_at_once_and_any_when_it_is_asked_for(
    world: ReplicaWorld,
) -> None:
    world.create_topic("large", partitions=100)

    assert len(world.replica_manager) == 1 + HOSTED_AT_ONCE
    assert world.append("large", index=99) == 0
    assert len(world.replica_manager) == 2 + HOSTED_AT_ONCE


async def _host_the_rest(world: ReplicaWorld) -> int:
    """Turns of the loop that others got until all was hosted."""
    turns = 0
    work = asyncio.ensure_future(world.replica_manager.host_the_rest())
    while len(world.replica_manager) < 101:
        await asyncio.sleep(0)
        turns += 1
    work.cancel()
    return turns


def test_the_rest_is_made_in_turns_with_the_loop(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)

    turns = asyncio.run(_host_the_rest(world))

    assert turns >= (100 - HOSTED_AT_ONCE) // HOSTED_AT_ONCE
    assert world.append("large", index=50) == 0


def test_what_changes_before_the_log_is_made_holds_when_it_is(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)
    world.create_topic("large", partitions=100, leader_epoch=3)

    assert world.partition("large", 99).leader_epoch == 3


def test_a_topic_that_goes_before_its_logs_are_made_leaves_nothing(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)
    world.delete_topic("large")

    with pytest.raises(KafkaError) as refused:
        world.partition("large", 99)

    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.replica_manager.find(TopicPartition("large", 99)) is None
    assert len(world.replica_manager) == 1


def test_a_producer_that_outlives_its_topic_goes_on_with_another_one_of_that_name(
    world: ReplicaWorld,
) -> None:
    """It does not begin with sequence 0 there, and librdkafka's ends where that is refused."""

    def send(sequence: int, producer_id: int = 7) -> int:
        records = batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        partition = world.partition("again")
        return partition.append_as_leader(
            records, required_acks=1, now_ms=world.clock.now_ms(), produce_version=9
        ).base_offset

    world.create_topic("again", topic_id=b"1" * 16)
    assert [send(0), send(1)] == [0, 1]
    world.delete_topic("again")
    world.log_manager.disk.files.clear()
    world.create_topic("again", topic_id=b"2" * 16)

    with pytest.raises(KafkaError) as refused:
        send(2, producer_id=8)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(2) == 0


def test_only_so_many_deleted_partitions_and_producers_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predecessors, "MAX_PARTITIONS", 2)
    monkeypatch.setattr(predecessors, "MAX_PRODUCERS", 3)
    kept = predecessors.Predecessors()
    for index in range(3):
        kept.remember(TopicPartition("t", index), [ProducerEntry(one, one) for one in range(9)])
    kept.remember(TopicPartition("unused", 0), [])

    assert kept.take(TopicPartition("t", 0)) == {}
    assert kept.take(TopicPartition("t", 1)) == {0: 0, 1: 1, 2: 2}
    assert kept.take(TopicPartition("t", 1)) == {}
