"""A broker is decommissioned: all its replicas move elsewhere, and then it may be removed."""

from collections import Counter

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import AlterPartitionReassignments, CreateTopics, UnregisterBroker
from ottla.metadata_raft.drain_plan import AssignedPartition, drain_of, plan_drain
from tests.unit.metadata_raft.metadata_world import MetadataWorld
from tests.unit.metadata_raft.test_isr_control import alter


def test_a_broker_is_drained_and_unregistered() -> None:
    world = MetadataWorld(brokers=3)
    world.submit(CreateTopics(topics=[world.topic("t", assignments=[(0, [1, 2]), (1, [0, 2])])]))

    plan = drain_of(world.image, 1)
    world.submit(AlterPartitionReassignments(topics=plan))
    alter(world, [1, 2, 0])
    world.submit(UnregisterBroker(broker_id=1))

    moved, stayed = world.image.topics.by_name["t"].partitions
    assert (moved.replicas, moved.isr, moved.leader) == ((0, 2), (2, 0), 0)
    assert stayed.replicas == (0, 2)
    assert drain_of(world.image, 1) == []


def test_successors_share_the_load_and_keep_the_racks_apart() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    partitions = [AssignedPartition("t", index, [0, 1, 2]) for index in range(10)]

    (topic,) = plan_drain(partitions, racks, 0)

    successors = Counter(partition.replicas[0] for partition in topic.partitions if partition.replicas)
    assert successors == {4: 5, 5: 5}, "a and b have a replica each"


def test_a_replica_that_is_moving_away_needs_no_second_move() -> None:
    world = MetadataWorld(brokers=3)
    world.submit(CreateTopics(topics=[world.topic("t", assignments=[(0, [1, 2])])]))
    world.submit(AlterPartitionReassignments(topics=drain_of(world.image, 1)))

    assert drain_of(world.image, 1) == []


def test_too_few_brokers_are_an_error() -> None:
    with pytest.raises(KafkaError) as refused:
        plan_drain([AssignedPartition("t", 0, [0, 1, 2])], {1: None, 2: None}, 0)

    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
