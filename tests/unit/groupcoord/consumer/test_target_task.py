"""Targets of large groups are made in a thread; meanwhile the group goes on with the present one."""

from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_group_state import ConsumerGroupState
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupTargetAssignmentMemberRecord
from ottla.groupcoord.consumer.executor_tasks import run_task
from ottla.groupcoord.consumer.target_assignment import TOPIC_COUNTS
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Append
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.topics_view import ListedTopics, TopicInfo
from tests.unit.groupcoord.consumer.consumer_world import Client, ConsumerWorld, settle
from tests.unit.groupcoord.topic_ids import partitions_in, topic_id


def large_world(interval_ms: int = 0) -> ConsumerWorld:
    """Return a world in which every group is large, and tasks for a thread wait for `release_tasks`."""
    config = CoordinatorConfig(group_consumer_assignment_interval_ms=interval_ms, largest_inline_target=-1)
    world = ConsumerWorld(config)
    world.holds_tasks = True
    return world


def targets(world: ConsumerWorld) -> dict[str, list[int]]:
    """Return the target of topic "a", by members."""
    found = world.group().targets.items()
    return {member_id: sorted(target.get(topic_id("a"), ())) for member_id, target in found}


def test_a_member_that_joins_has_no_partitions_until_the_target_is_there() -> None:
    world = large_world()

    joined = world.join("m1", "a")
    world.groups.advance(0)

    assert (joined.member_epoch, partitions_in(joined)) == (1, {})
    assert world.group().state is ConsumerGroupState.ASSIGNING and len(world.held) == 1
    since = len(world.groups.log)
    world.release_tasks()
    assert world.written(since) == "7 6"
    answer = world.stay("m1", 1)
    assert (answer.member_epoch, partitions_in(answer)) == (2, {"a": [0, 1, 2, 3]})
    assert not any(key.purpose == "assign" for key in world.groups.timers)


def test_the_size_of_a_group_includes_the_topics_of_the_member_that_joins() -> None:
    topics = [TopicInfo(bytes(14) + number.to_bytes(2), f"t{number}", 1) for number in range(20)]
    size = 20 * (1 + TOPIC_COUNTS)

    def effects_of(limit: int) -> set[type]:
        shard = GroupShard(CoordinatorConfig(largest_inline_target=limit), lambda: "unique")
        shard.topics = ListedTopics(topics)
        names = [topic.name for topic in topics]
        command = ConsumerGroupHeartbeat(
            token=1,
            group_id="g",
            member_id="m" * 22,
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=names,
            owned=(),
        )
        records = [
            record
            for effect in Coordinator(shard).handle(command, 1_000)
            if isinstance(effect, Append)
            for record in effect.records
        ]
        return {type(record) for record in records}

    assert ConsumerGroupTargetAssignmentMemberRecord in effects_of(size)
    assert ConsumerGroupTargetAssignmentMemberRecord not in effects_of(size - 1)


def test_one_target_is_made_at_a_time_and_the_next_covers_changes_since() -> None:
    world = large_world(interval_ms=1_000)
    world.join("m1", "a")
    world.groups.advance(0)
    world.join("m2", "a")
    world.stay("m1", 1)
    world.groups.advance(0)
    assert len(world.held) == 1

    world.groups.handle(run_task(world.held.pop().task))

    assert targets(world) == {"m1": [0, 1, 2, 3], "m2": []}
    assert (world.group().group_epoch, world.group().assignment_epoch) == (3, 2)
    world.groups.advance(1_000)
    world.release_tasks()
    assert targets(world) == {"m1": [0, 1], "m2": [2, 3]}
    assert world.group().assignment_epoch == 3


def test_a_member_that_left_has_no_target_and_its_replacement_gets_it() -> None:
    world = large_world()
    for member_id, instance in (("m1", None), ("m2", "i2"), ("m3", None)):
        world.join(member_id, "a", instance=instance)
    world.groups.advance(0)
    world.stay("m1", -1)
    world.stay("m2", -2, instance="i2")
    world.join("m4", "a", instance="i2")

    given = run_task(world.held.pop().task)
    world.groups.handle(given)

    assert targets(world).keys() == {"m3", "m4"}
    assert targets(world)["m4"] == sorted(given.targets["m2"][topic_id("a")])  # type: ignore[union-attr]


def test_a_target_for_an_earlier_group_of_this_name_is_dropped() -> None:
    world = large_world()
    world.join("m1", "a")
    world.groups.advance(0)
    task = world.held.pop().task
    world.restart()
    since = len(world.groups.log)

    world.groups.handle(run_task(task))

    assert world.written(since) == ""
    world.groups.advance(0)
    world.release_tasks()
    assert world.group().assignment_epoch == 2


def test_the_members_of_a_large_group_share_all_partitions_in_the_end() -> None:
    world = large_world()
    clients = [Client(world, f"m{number}", "a") for number in range(3)]
    for client in clients:
        client.join()
        world.groups.advance(0)

    world.release_tasks()
    for _ in range(4):
        settle(clients, rounds=1)
        world.groups.advance(0)

    assert world.group().state is ConsumerGroupState.STABLE
    assert sorted(number for client in clients for number in client.owned["a"]) == [0, 1, 2, 3]
