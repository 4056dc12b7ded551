"""Which partitions a node hosts: a large topic never stops the loop, and is served from its first moment."""

import asyncio

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.replica.replica_manager import HOSTED_AT_ONCE, REMOVED_AT_ONCE
from tests.unit.node.replica.replica_world import ReplicaWorld


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


def test_what_a_topic_counted_is_in_the_sum_of_all_after_it_is_gone(world: ReplicaWorld) -> None:
    manager = world.replica_manager
    world.create_topic("t")
    world.append("t")
    counted = sum(one.messages_in for one in manager.counters.values())
    before = manager.counters

    world.delete_topic("t")

    assert manager.counters_of("t") is None
    assert sum(one.messages_in for one in manager.counters.values()) == counted == 1
    assert "t" in before, "another thread that reads them sees all of the old or all of the new"


def test_logs_of_a_large_topic_are_removed_in_turns_and_the_rest_when_the_node_stops(
    world: ReplicaWorld,
) -> None:
    world.create_topic("large", partitions=100)

    deleted = world.log_manager.deleted

    async def scene() -> tuple[int, int]:
        await _host_the_rest(world)
        await asyncio.sleep(0)  # it has ended
        world.delete_topic("large")
        at_once = len(deleted)
        work = asyncio.ensure_future(world.replica_manager.host_the_rest())
        while len(deleted) == at_once:
            await asyncio.sleep(0)
        in_turns = len(deleted)
        work.cancel()
        await asyncio.wait([work])
        return at_once, in_turns

    at_once, in_turns = asyncio.run(scene())

    assert at_once == REMOVED_AT_ONCE
    assert at_once < in_turns < 100
    assert len(deleted) == len(set(deleted)) == 100


def test_a_topic_that_is_made_anew_while_its_old_logs_go_has_new_ones(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)
    asyncio.run(_host_the_rest(world))
    world.delete_topic("large")
    assert TopicPartition("large", 99) not in world.log_manager.deleted

    world.create_topic("large", partitions=100)
    world.append("large", index=99)

    assert TopicPartition("large", 99) in world.log_manager.deleted


def test_a_small_topic_does_not_wait_for_the_logs_of_a_large_one(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)
    world.create_topic("small", partitions=2 * HOSTED_AT_ONCE)

    async def scene() -> int:
        work = asyncio.ensure_future(world.replica_manager.host_the_rest())
        while sum(one.topic_partition.topic == "small" for one in world.replica_manager) < 2 * HOSTED_AT_ONCE:
            await asyncio.sleep(0)
        work.cancel()
        return len(world.replica_manager)

    assert asyncio.run(scene()) < 8 * HOSTED_AT_ONCE
