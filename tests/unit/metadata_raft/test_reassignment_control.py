"""Partitions move to other brokers (KIP-455)."""

from collections.abc import Sequence

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.commands import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    AssignReplicasToDirs,
    CreateTopics,
    ReassignablePartition,
    ReassignableTopic,
    ReplicaDirectory,
)
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.partition_change import RECOVERING
from ottla.metadata_raft.reassignment_control import OngoingReassignment, ongoing_reassignments
from tests.unit.metadata_raft.metadata_world import CONFIG, MetadataWorld, log_dir_id
from tests.unit.metadata_raft.test_isr_control import alter


def with_topic(*replicas: int, brokers: int = 5, **configs: str) -> MetadataWorld:
    world = MetadataWorld(brokers=brokers)
    settings = [(name.replace("_", "."), value) for name, value in configs.items()]
    world.submit(CreateTopics(topics=[world.topic("t", assignments=[(0, replicas)], configs=settings)]))
    return world


def partition(world: MetadataWorld) -> PartitionImage:
    return world.image.topics.by_name["t"].partitions[0]


def move(
    world: MetadataWorld,
    replicas: Sequence[int] | None,
    *,
    topic: str = "t",
    index: int = 0,
    may_resize: bool = True,
) -> int:
    one = ReassignablePartition(partition_index=index, replicas=replicas)
    reply = world.submit(
        AlterPartitionReassignments(
            topics=[ReassignableTopic(name=topic, partitions=[one])],
            allow_replication_factor_change=may_resize,
        )
    )
    assert isinstance(reply, AlterPartitionReassignmentsReply)
    return reply.responses[0].partitions[0].error_code


def test_a_partition_moves_when_all_new_replicas_are_in_sync() -> None:
    world = with_topic(0, 1)

    move(world, [2, 3])
    moving = partition(world)
    alter(world, [0, 1, 2], broker_id=0)
    half = partition(world)
    alter(world, [0, 1, 2, 3], broker_id=0)

    assert moving.replicas == (2, 3, 0, 1)
    assert (moving.adding_replicas, moving.removing_replicas) == ((2, 3), (0, 1))
    assert (moving.isr, moving.leader, moving.leader_epoch) == ((0, 1), 0, 0), "it serves as before"
    assert half.replicas == (2, 3, 0, 1) and half.isr == (0, 1, 2)
    after = partition(world)
    assert (after.replicas, after.isr, after.leader) == ((2, 3), (2, 3), 2)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert after.leader_epoch == 1
    assert after.directories == (log_dir_id(2, 0), log_dir_id(3, 0))


def test_a_reassignment_without_new_replicas_is_done_at_once() -> None:
    world = with_topic(0, 1, 2)

    move(world, [2, 1, 0])
    turned = partition(world)
    move(world, [2, 1])

    assert (turned.replicas, turned.leader, turned.leader_epoch) == ((2, 1, 0), 0, 0)
    after = partition(world)
    assert (after.replicas, after.isr, after.leader) == ((2, 1), (1, 2), 2)
    assert after.leader_epoch == 1, "the leader was removed, so a leader epoch begins"


def test_removing_a_follower_begins_a_new_leader_epoch_too() -> None:
    world = with_topic(0, 1, 2)

    move(world, [0, 1])

    assert (partition(world).leader, partition(world).leader_epoch) == (0, 1)


def test_the_replication_factor_grows() -> None:
    world = with_topic(0)

    move(world, [0, 1])
    moving = partition(world)
    alter(world, [0, 1], broker_id=0)

    assert (moving.adding_replicas, moving.removing_replicas) == ((1,), ())
    assert (partition(world).replicas, partition(world).adding_replicas) == ((0, 1), ())


def test_the_replication_factor_may_not_change_if_the_request_forbids_it() -> None:
    """KIP-860"""
    world = with_topic(0, 1)

    assert move(world, [0, 1, 2], may_resize=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(world, [0, 2], may_resize=False) == ErrorCode.NONE
    assert move(world, [0, 3], may_resize=False) == ErrorCode.NONE
    move(world, [0, 1, 2])
    assert move(world, [0, 3], may_resize=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(world, [0, 3, 4], may_resize=False) == ErrorCode.NONE, "it counts as what it will be"


def test_a_reassignment_is_cancelled() -> None:
    world = with_topic(0, 1)
    move(world, [2, 3])
    alter(world, [0, 1, 2], broker_id=0)

    move(world, None)

    after = partition(world)
    assert (after.replicas, after.isr, after.leader) == ((0, 1), (0, 1), 0)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert move(world, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_cancellation_that_would_lose_records_is_rejected_unless_the_topic_allows_it() -> None:
    for allowed in ("false", "true"):
        world = with_topic(0, unclean_leader_election_enable=allowed)
        move(world, [2, 3])
        alter(world, [0, 2], broker_id=0)
        world.heartbeat(0, want_fence=True)
        assert partition(world).isr == (2,)

        code = move(world, None)

        if allowed == "false":
            assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        else:
            assert code == ErrorCode.NONE and partition(world).replicas == (0,)
            assert partition(world).leader_recovery_state == RECOVERING


def test_a_reassignment_replaces_another() -> None:
    world = with_topic(0, 1)
    move(world, [2, 3])

    move(world, [2, 4])

    now = partition(world)
    assert now.replicas == (2, 4, 0, 1, 3)
    assert (now.adding_replicas, now.removing_replicas) == ((4,), (0, 1, 3))


@pytest.mark.parametrize("again", [(1, 2), (2, 1, 0)])
def test_a_replica_that_is_being_added_must_be_in_sync_after_another_request_too(
    again: tuple[int, ...],
) -> None:
    """Otherwise a reassignment would be reported as complete with one replica in sync too few."""
    world = with_topic(0, 1)
    move(world, [1, 2])

    move(world, again)
    moving = partition(world)
    alter(world, [0, 1, 2], broker_id=0)

    assert moving.adding_replicas == (2,)
    after = partition(world)
    assert after.replicas == again
    assert (after.adding_replicas, after.removing_replicas) == ((), ())


def test_the_next_controller_continues_a_reassignment() -> None:
    world = with_topic(0, 1)
    move(world, [2, 1])
    world.controller = Controller(world.image, CONFIG)
    world.controller.activate(world.image, world.now_ms)

    alter(world, [0, 1, 2], broker_id=0)

    assert (partition(world).replicas, partition(world).leader) == ((2, 1), 2)


def test_a_reassignment_that_ends_with_a_report_of_directories_has_those_that_stay() -> None:
    """Found by the model: after an unclean election all remaining replicas are in sync, so it can end."""
    world = with_topic(0, unclean_leader_election_enable="true")
    world.start_broker(2, log_dirs=2)
    move(world, [2])
    world.heartbeat(0, want_fence=True)
    assert (partition(world).replicas, partition(world).isr) == ((2, 0), (2,))
    topic_id = world.image.topics.by_name["t"].topic_id
    place = ReplicaDirectory(topic_id=topic_id, partition_index=0, directory_id=log_dir_id(2, 1))

    world.submit(
        AssignReplicasToDirs(
            broker_id=2, broker_epoch=world.image.brokers[2].broker_epoch, assignments=[place]
        )
    )

    assert (partition(world).replicas, partition(world).directories) == ((2,), (log_dir_id(2, 1),))


def test_ongoing_reassignments_are_listed() -> None:
    world = with_topic(0, 1)
    move(world, [2, 1])
    expected = [OngoingReassignment("t", 0, (2, 1, 0), (2,), (0,))]

    assert list(ongoing_reassignments(world.image)) == expected
    assert list(ongoing_reassignments(world.image, [("t", [0, 7]), ("?", [0])])) == expected
    assert list(ongoing_reassignments(world.image, [("t", [])])) == []


REFUSED = [
    ("no replicas", [], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("twice", [1, 1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("unregistered", [0, 99], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("no such topic", [1], {"topic": "?"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("no such partition", [1], {"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("a negative one", [1], {"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("nothing to cancel", None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
]


@pytest.mark.parametrize(
    ("replicas", "fields", "error"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_invalid_reassignments_are_rejected(
    replicas: list[int] | None, fields: dict[str, str], error: ErrorCode
) -> None:
    world = with_topic(0, 1)
    version = world.image.version

    assert move(world, replicas, **fields) == error  # type: ignore[arg-type]
    assert world.image.version == version


def test_a_partition_that_is_named_twice_is_rejected_the_second_time() -> None:
    """The second would be decided on the state before the first."""
    world = with_topic(0, 1)
    wanted = [ReassignablePartition(partition_index=0, replicas=replicas) for replicas in ([2], [0])]

    reply = world.submit(AlterPartitionReassignments(topics=[ReassignableTopic(name="t", partitions=wanted)]))

    assert isinstance(reply, AlterPartitionReassignmentsReply)
    codes = [one.error_code for one in reply.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
