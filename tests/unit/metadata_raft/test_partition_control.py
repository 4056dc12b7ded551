"""Leaders when a log directory fails under a broker that lives."""

import pytest

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.commands import CreateTopics, ReportOfflineReplicas
from metadata_raft.image import TopicImage
from metadata_raft.records import NO_LEADER
from tests.unit.metadata_raft.metadata_world import MetadataWorld


def topic_on(world: MetadataWorld, *replicas: int) -> TopicImage:
    topic = world.topic("t", assignments=[(0, replicas), (1, replicas)])
    world.submit(CreateTopics(topics=[topic]))
    return world.image.topics.by_name["t"]


def report(world: MetadataWorld, topic: TopicImage, *partitions: int, broker_id: int = 0) -> int:
    reply = world.submit(
        ReportOfflineReplicas(
            broker_id=broker_id,
            broker_epoch=world.image.brokers[broker_id].broker_epoch,
            replicas=[(topic.topic_id, partition) for partition in partitions],
        )
    )
    return reply.changed_partitions  # type: ignore[union-attr]


def test_the_last_replica_in_sync_keeps_its_place_and_nobody_leads() -> None:
    world = MetadataWorld()
    topic = topic_on(world, 0)

    assert report(world, topic, 1) == 1

    served, lost = world.image.topics.by_name["t"].partitions
    assert served.leader == 0
    assert (lost.leader, lost.isr) == (NO_LEADER, (0,))
    assert lost.leader_epoch == topic.partitions[1].leader_epoch + 1


def test_another_replica_in_sync_leads() -> None:
    world = MetadataWorld(brokers=2)
    topic = topic_on(world, 0, 1)

    report(world, topic, 0)

    moved = world.image.topics.by_name["t"].partitions[0]
    assert (moved.leader, moved.isr) == (1, (1,))


def test_a_restart_of_the_broker_elects_it_again() -> None:
    world = MetadataWorld()
    report(world, topic_on(world, 0), 0)

    world.start_broker(0)

    assert world.image.topics.by_name["t"].partitions[0].leader == 0


def test_what_is_gone_or_told_twice_changes_nothing() -> None:
    world = MetadataWorld()
    topic = topic_on(world, 0)

    assert report(world, topic, 7) == 0
    assert report(world, TopicImage("gone", bytes(16), ()), 0) == 0


def test_a_process_that_was_replaced_is_not_believed() -> None:
    world = MetadataWorld()
    topic = topic_on(world, 0)

    with pytest.raises(KafkaError) as refused:
        world.submit(ReportOfflineReplicas(broker_id=0, broker_epoch=-5, replicas=[(topic.topic_id, 0)]))

    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
