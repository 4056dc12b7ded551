"""Leaders and offline replicas when a log directory of a running broker fails (KIP-858)."""

from collections import Counter

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AssignReplicasToDirs,
    CreateTopics,
    ElectionType,
    ElectLeaders,
    ReplicaDirectory,
    ReportOfflineLogDirs,
    TopicPartitions,
)
from ottla.metadata_raft.image import PartitionImage, TopicImage
from ottla.metadata_raft.records import LOST_DIRECTORY, NO_LEADER, UNASSIGNED_DIRECTORY
from tests.unit.metadata_raft.metadata_world import MetadataWorld, log_dir_id

GOOD, BAD = log_dir_id(0, 0), log_dir_id(0, 1)


def two_dirs(*, brokers: int = 1) -> MetadataWorld:
    """Return a world of brokers, the first with two log directories."""
    world = MetadataWorld(brokers=0)
    for broker_id in range(brokers):
        world.start_broker(broker_id, log_dirs=2 if broker_id == 0 else 1)
    return world


def topic_on(world: MetadataWorld, *replicas: int) -> TopicImage:
    """Create two partitions; broker 0 has the first in its good directory, the second in the bad one."""
    topic = world.topic("t", assignments=[(0, replicas), (1, replicas)])
    world.submit(CreateTopics(topics=[topic]))
    assign(world, (0, GOOD), (1, BAD))
    return world.image.topics.by_name["t"]


def assign(world: MetadataWorld, *places: tuple[int, bytes], topic_id: bytes | None = None) -> int:
    topic_id = topic_id or world.image.topics.by_name["t"].topic_id
    reply = world.submit(
        AssignReplicasToDirs(
            broker_id=0,
            broker_epoch=world.image.brokers[0].broker_epoch,
            assignments=[
                ReplicaDirectory(topic_id=topic_id, partition_index=index, directory_id=directory)
                for index, directory in places
            ],
        )
    )
    return reply.changed_partitions  # type: ignore[union-attr]


def fail(world: MetadataWorld, *log_dirs: bytes) -> int:
    epoch = world.image.brokers[0].broker_epoch
    reply = world.submit(ReportOfflineLogDirs(broker_id=0, broker_epoch=epoch, log_dirs=log_dirs))
    return reply.changed_partitions  # type: ignore[union-attr]


def partition(world: MetadataWorld, index: int) -> PartitionImage:
    return world.image.topics.by_name["t"].partitions[index]


def test_the_last_replica_in_sync_stays_and_there_is_no_leader() -> None:
    world = two_dirs()
    topic = topic_on(world, 0)

    assert fail(world, BAD) == 1

    served, lost = partition(world, 0), partition(world, 1)
    assert served.leader == 0
    assert (lost.leader, lost.isr) == (NO_LEADER, (0,))
    assert lost.leader_epoch == topic.partitions[1].leader_epoch + 1
    assert [world.image.offline_replicas(one) for one in (served, lost)] == [[], [0]]
    assert world.image.brokers[0].log_dirs == (GOOD,)


def test_another_replica_in_sync_leads() -> None:
    world = two_dirs(brokers=2)
    topic_on(world, 0, 1)

    fail(world, BAD)

    moved = partition(world, 1)
    assert (moved.leader, moved.isr) == (1, (1,))
    assert world.image.offline_replicas(moved) == [0]


def test_leadership_of_a_log_directory_is_spread_over_the_other_brokers() -> None:
    world = two_dirs(brokers=3)
    topic = world.topic("t", assignments=[(index, (0, 1, 2)) for index in range(6)])
    world.submit(CreateTopics(topics=[topic]))
    assign(world, *((index, BAD) for index in range(6)))

    fail(world, BAD)

    assert Counter(partition(world, index).leader for index in range(6)) == {1: 3, 2: 3}


def test_a_restart_elects_the_broker_where_its_directory_is_back() -> None:
    world = two_dirs()
    topic_on(world, 0)
    fail(world, BAD)

    world.start_broker(0, log_dirs=1)
    assert [partition(world, index).leader for index in (0, 1)] == [0, NO_LEADER]
    world.start_broker(0, log_dirs=2)

    assert [partition(world, index).leader for index in (0, 1)] == [0, 0]
    assert world.image.offline_replicas(partition(world, 1)) == []


def test_a_replica_found_in_another_directory_is_elected_there() -> None:
    world = two_dirs()
    topic_on(world, 0)
    fail(world, BAD)

    assert assign(world, (1, GOOD)) == 1

    assert partition(world, 1).leader == 0
    assert partition(world, 1).directories == (GOOD,)


def test_the_last_replica_in_sync_does_not_lead_from_an_empty_disk() -> None:
    """Its followers would truncate their logs. An administrator can still request an unclean election."""
    world = two_dirs(brokers=2)
    topic_on(world, 0, 1)
    world.heartbeat(1, want_fence=True)
    world.start_broker(0, log_dirs=1)
    leaderless = partition(world, 1)

    assign(world, (1, GOOD))
    emptied = partition(world, 1)
    world.heartbeat(1)
    world.heartbeat(0)
    still = partition(world, 1)
    elected = ElectLeaders(
        election_type=ElectionType.UNCLEAN, topic_partitions=[TopicPartitions(topic="t", partitions=[1])]
    )
    world.heartbeat(0, want_fence=True)
    world.submit(elected)

    assert (leaderless.leader, leaderless.isr) == (NO_LEADER, (0,))
    assert (emptied.leader, emptied.isr, emptied.directories[0]) == (NO_LEADER, (), GOOD)
    assert still.leader == NO_LEADER
    assert (partition(world, 1).leader, partition(world, 1).isr) == (1, (1,))


def test_a_follower_with_an_empty_disk_leaves_the_isr_until_it_has_caught_up() -> None:
    world = two_dirs(brokers=2)
    topic_on(world, 1, 0)
    world.start_broker(0, log_dirs=1)

    assign(world, (1, GOOD))

    assert (partition(world, 1).leader, partition(world, 1).isr) == (1, (1,))


def test_a_replica_in_the_lost_directory_is_offline() -> None:
    world = two_dirs()
    topic_on(world, 0)

    assign(world, (0, LOST_DIRECTORY))

    assert partition(world, 0).leader == NO_LEADER
    assert world.image.offline_replicas(partition(world, 0)) == [0]


def test_a_replica_without_a_reported_directory_is_not_offline() -> None:
    world = two_dirs()
    world.submit(CreateTopics(topics=[world.topic("t", assignments=[(0, [0])])]))

    assert partition(world, 0).directories == (UNASSIGNED_DIRECTORY,)
    assert world.image.offline_replicas(partition(world, 0)) == []


def test_unknown_replicas_and_repeated_reports_change_nothing() -> None:
    world = two_dirs(brokers=2)
    topic_on(world, 0)
    fail(world, BAD)
    version = world.image.version

    assert fail(world, BAD, b"never registered") == 0
    assert assign(world, (0, GOOD), (7, GOOD)) == 0
    assert assign(world, (0, GOOD), topic_id=b"a topic that was") == 0

    assert world.image.version == version


@pytest.mark.parametrize("command", [ReportOfflineLogDirs, AssignReplicasToDirs])
def test_reports_of_a_replaced_process_are_rejected(command: type) -> None:
    world = two_dirs()
    word = {"log_dirs": [BAD]} if command is ReportOfflineLogDirs else {"assignments": []}

    with pytest.raises(KafkaError) as refused:
        world.submit(command(broker_id=0, broker_epoch=-5, **word))

    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
