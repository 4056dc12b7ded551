"""The partitions of a node: a large topic never blocks the loop, and is served from its first moment."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import (
    CHECKED_AT_ONCE,
    CONFIGURED_AT_ONCE,
    HOSTED_AT_ONCE,
    OBJECTS_OF_A_PARTITION,
    REMOVED_AT_ONCE,
    SETTLED_AT_ONCE,
)
from tests.unit.node.replica.replica_world import ReplicaWorld


@pytest.fixture
def world() -> ReplicaWorld:
    world = ReplicaWorld()
    world.create_topic("first")  # after it the node has started, and hosts large topics in turns
    return world


def test_a_small_topic_is_created_before_the_change_is_answered(world: ReplicaWorld) -> None:
    world.create_topic("small", partitions=HOSTED_AT_ONCE)

    assert len(world.replica_manager) == 1 + HOSTED_AT_ONCE


def test_some_logs_of_a_large_topic_are_created_at_once_and_any_other_when_it_is_requested(
    world: ReplicaWorld,
) -> None:
    world.create_topic("large", partitions=100)

    assert len(world.replica_manager) == 1 + HOSTED_AT_ONCE
    assert world.append("large", index=99) == 0
    assert len(world.replica_manager) == 2 + HOSTED_AT_ONCE


async def _host_all(world: ReplicaWorld) -> int:
    """Host all partitions; return the number of turns that other tasks had meanwhile."""
    turns = 0
    work = asyncio.ensure_future(world.replica_manager.carry_out_the_rest())
    while len(world.replica_manager) < 101:
        await asyncio.sleep(0)
        turns += 1
    work.cancel()
    return turns


def test_the_rest_is_created_in_turns_with_the_loop(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)

    turns = asyncio.run(_host_all(world))

    assert turns >= (100 - HOSTED_AT_ONCE) // HOSTED_AT_ONCE
    assert world.append("large", index=50) == 0


def test_changes_before_a_log_is_created_hold_once_it_is(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)
    world.create_topic("large", partitions=100, leader_epoch=3)

    assert world.partition("large", 99).leader_epoch == 3


def test_a_topic_deleted_before_its_logs_are_created_leaves_nothing(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)
    world.delete_topic("large")

    with pytest.raises(KafkaError) as refused:
        world.partition("large", 99)

    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.replica_manager.find(TopicPartition("large", 99)) is None
    assert len(world.replica_manager) == 1


def test_the_counters_of_a_deleted_topic_stay_in_the_sum_of_all(world: ReplicaWorld) -> None:
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
        await _host_all(world)
        await asyncio.sleep(0)  # the task has ended
        world.delete_topic("large")
        at_once = len(deleted)
        work = asyncio.ensure_future(world.replica_manager.carry_out_the_rest())
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


def test_a_topic_that_is_created_again_while_its_old_logs_are_removed_has_new_ones(
    world: ReplicaWorld,
) -> None:
    world.create_topic("large", partitions=100)
    asyncio.run(_host_all(world))
    world.delete_topic("large")
    assert TopicPartition("large", 99) not in world.log_manager.deleted

    world.create_topic("large", partitions=100)
    world.append("large", index=99)

    assert TopicPartition("large", 99) in world.log_manager.deleted


def test_a_small_topic_does_not_wait_for_the_logs_of_a_large_one(world: ReplicaWorld) -> None:
    world.create_topic("large", partitions=100)
    world.create_topic("small", partitions=2 * HOSTED_AT_ONCE)

    async def scene() -> int:
        work = asyncio.ensure_future(world.replica_manager.carry_out_the_rest())
        while sum(one.topic_partition.topic == "small" for one in world.replica_manager) < 2 * HOSTED_AT_ONCE:
            await asyncio.sleep(0)
        work.cancel()
        return len(world.replica_manager)

    assert asyncio.run(scene()) < 8 * HOSTED_AT_ONCE


MANY = 3 * SETTLED_AT_ONCE


def large_world() -> ReplicaWorld:
    """Return a node that has started with a topic of very many partitions, all of which it leads."""
    world = ReplicaWorld()
    world.create_topic("large", partitions=MANY, replicas=(1, 2))
    return world


async def _carry_out(world: ReplicaWorld, is_done: Callable[[], bool]) -> int:
    """Work in turns until it is done; return the number of turns that other tasks had meanwhile."""
    turns = 0
    work = asyncio.ensure_future(world.replica_manager.carry_out_the_rest())
    while not is_done():
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10_000, "it is never done"
    work.cancel()
    return turns


def test_new_roles_of_very_many_partitions_are_taken_in_turns() -> None:
    world = large_world()
    changed: list[Partition] = []
    world.replica_manager.watch(changed.append)

    world.create_topic("large", partitions=MANY, replicas=(1, 2), leader=2, leader_epoch=1)
    at_once = len(changed)
    turns = asyncio.run(_carry_out(world, lambda: not world.replica_manager.is_behind))

    assert at_once == SETTLED_AT_ONCE
    assert turns >= MANY // SETTLED_AT_ONCE - 1
    assert len(changed) == MANY
    assert not any(one.is_leader for one in world.replica_manager)


def test_a_partition_that_is_looked_up_has_its_new_role_before_its_turn() -> None:
    world = large_world()

    world.create_topic("large", partitions=MANY, replicas=(1, 2), leader=2, leader_epoch=1)

    assert world.replica_manager.is_behind
    assert world.partition("large", MANY - 1).leader_epoch == 1
    assert not world.partition("large", MANY - 1).is_leader


def test_a_change_of_one_partition_does_not_touch_the_others_of_a_large_topic() -> None:
    world = large_world()
    before = {one.topic_partition.partition: one.assignment for one in world.replica_manager}

    world.change_partition("large", 7, isr=(1,))

    changed = [one for one in world.replica_manager if one.assignment is not before[one.topic_partition[1]]]
    assert [one.topic_partition.partition for one in changed] == [7]
    assert changed[0].assignment.in_sync_replicas == (1,)


def test_a_deleted_large_topic_is_no_longer_found_although_it_is_removed_in_turns() -> None:
    world = large_world()

    world.delete_topic("large")

    assert len(world.replica_manager) == MANY - SETTLED_AT_ONCE
    assert world.replica_manager.find(TopicPartition("large", MANY - 1)) is None
    asyncio.run(_carry_out(world, lambda: len(world.log_manager.deleted) == MANY))
    assert len(world.replica_manager) == 0


def test_a_large_topic_that_is_created_again_at_once_never_writes_to_the_old_logs() -> None:
    world = large_world()
    old = next(one for one in world.replica_manager if one.topic_partition.partition == MANY - 1)
    world.delete_topic("large")

    world.create_topic("large", partitions=MANY, topic_id=b"another".ljust(16, b"."))
    world.append("large", index=MANY - 1)

    assert not old.is_leader
    assert world.partition("large", MANY - 1) is not old
    assert world.log_manager.deleted.count(TopicPartition("large", MANY - 1)) == 1


def test_the_hosted_partitions_follow_the_last_metadata_in_any_order_of_turns() -> None:
    world = large_world()
    world.create_topic("large", partitions=MANY, replicas=(2,), leader=2, leader_epoch=1)  # moved away
    world.create_topic("large", partitions=MANY, replicas=(1,), leader=1, leader_epoch=2)  # and back

    async def scene() -> None:
        await _carry_out(world, lambda: not world.replica_manager.is_behind)

    asyncio.run(scene())

    assert len(world.replica_manager) == MANY
    assert all(one.is_leader and one.leader_epoch == 2 for one in world.replica_manager)


def test_a_fenced_node_leads_nothing_that_is_asked_for_and_acknowledges_nothing() -> None:
    world = large_world()
    last = world.partition("large", MANY - 1)
    world.append("large", index=MANY - 1)
    changed: list[Partition] = []
    world.replica_manager.watch(changed.append)

    world.replica_manager.fence()
    last.follower_fetched(2, 1)

    assert len(changed) == SETTLED_AT_ONCE
    assert last.log.high_watermark == 0
    assert not world.partition("large", MANY - 1).is_leader

    world.replica_manager.unfence()
    assert world.partition("large", MANY - 1).is_leader
    asyncio.run(_carry_out(world, lambda: not world.replica_manager.is_behind))
    assert all(one.is_leader for one in world.replica_manager)


def test_settings_of_very_many_topics_change_in_turns_and_at_once_for_a_requested_topic() -> None:
    world = ReplicaWorld()
    names = [f"t{number}" for number in range(3 * CONFIGURED_AT_ONCE)]
    for name in names:
        world.create_topic(name)
    manager = world.replica_manager
    asyncio.run(_carry_out(world, lambda: len(manager) == len(names)))
    changed = LogConfig(retention_ms=1)
    world.configs = dict.fromkeys(names, changed)

    changes = MetadataChanges((), frozenset({(ConfigResourceType.BROKER, "")}), frozenset(), False)
    manager.apply(world.metadata.image, changes)

    assert sum(one.log.config == changed for one in manager) == CONFIGURED_AT_ONCE
    assert all(world.partition(name).log.config == changed for name in names)
    assert asyncio.run(_carry_out(world, lambda: not manager.is_behind)) <= 10


def test_isrs_are_checked_in_turns_when_a_broker_comes_back() -> None:
    world = ReplicaWorld()
    world.create_topic("large", partitions=3 * CHECKED_AT_ONCE, replicas=(1, 2), isr=(1,))
    checked: list[Partition] = []
    context = world.replica_manager.context
    context.propose = lambda partition, _: checked.append(partition)
    context.is_eligible = lambda broker_id, broker_epoch: False
    for one in world.replica_manager:
        one.follower_fetched(2, 0)
    assert not checked
    context.is_eligible = lambda broker_id, broker_epoch: True

    changes = MetadataChanges((), frozenset(), frozenset({2}), False)
    world.replica_manager.apply(world.metadata.image, changes)
    at_once = len(checked)
    asyncio.run(_carry_out(world, lambda: len(checked) == 3 * CHECKED_AT_ONCE))

    assert at_once == CHECKED_AT_ONCE


def test_the_number_of_objects_freed_with_removed_partitions_is_reported() -> None:
    freed: list[int] = []
    world = ReplicaWorld(on_freed=freed.append)
    world.create_topic("t", partitions=REMOVED_AT_ONCE)

    world.delete_topic("t")

    assert freed == [OBJECTS_OF_A_PARTITION * REMOVED_AT_ONCE]
