"""AlterPartition: the changes of the ISR that a leader may request, and the errors of others."""

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionReassignments,
    AlterPartitionReply,
    AlterPartitionResult,
    BrokerState,
    CreateTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.partition_change import RECOVERED, RECOVERING
from tests.unit.metadata_raft.metadata_world import MetadataWorld


def world_with_a_leader() -> MetadataWorld:
    """Return a world with t-0 on brokers 1, 2 and 0 of four, led by 1; follower 0 is not in sync."""
    world = MetadataWorld(brokers=4)
    world.submit(CreateTopics(topics=[world.topic("t", assignments=[(0, [1, 2, 0])])]))
    alter(world, [1, 2])
    return world


def partition(world: MetadataWorld) -> PartitionImage:
    return world.image.topics.by_name["t"].partitions[0]


def alter(
    world: MetadataWorld,
    isr: Sequence[int],
    *,
    broker_id: int = 1,
    epochs: dict[int, int] | None = None,
    **fields: Any,
) -> AlterPartitionResult:
    now = partition(world)
    states = []
    for replica in isr:
        broker = world.image.brokers.get(replica)
        epoch = (epochs or {}).get(replica, broker.broker_epoch if broker else 0)
        states.append(BrokerState(broker_id=replica, broker_epoch=epoch))
    wanted = {
        "leader_epoch": now.leader_epoch,
        "partition_epoch": now.partition_epoch,
        "new_isr_with_epochs": states,
        **fields,
    }
    topic_id = world.image.topics.by_name["t"].topic_id
    reply = world.submit(
        AlterPartition(
            broker_id=broker_id,
            broker_epoch=world.image.brokers[broker_id].broker_epoch,
            topics=[AlteredTopic(topic_id=topic_id, partitions=[AlteredPartition(**wanted)])],
        )
    )
    assert isinstance(reply, AlterPartitionReply)
    return reply.topics[0].partitions[0]


def test_the_leader_expands_and_shrinks_its_isr() -> None:
    world = world_with_a_leader()
    before = partition(world)

    grown = alter(world, [1, 2, 0])
    shrunk = alter(world, [1])

    assert (grown.error_code, list(grown.isr)) == (ErrorCode.NONE, [1, 2, 0])
    assert list(shrunk.isr) == [1] == list(partition(world).isr)
    assert shrunk.partition_epoch == before.partition_epoch + 2 == partition(world).partition_epoch
    assert shrunk.leader_epoch == before.leader_epoch, "a shrink begins no leader epoch (KAFKA-15021)"
    assert (shrunk.leader_id, shrunk.leader_recovery_state) == (1, RECOVERED)


def test_a_leader_leaves_its_isr_and_another_leads() -> None:
    world = world_with_a_leader()
    before = partition(world)

    result = alter(world, [2])

    now = partition(world)
    assert result.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (now.leader, list(now.isr), now.leader_epoch) == (2, [2], before.leader_epoch + 1)


@pytest.mark.parametrize("state", [{"want_fence": True}, {"want_shut_down": True}])
def test_a_leader_stays_if_no_other_can_be_elected(state: dict[str, bool]) -> None:
    world = world_with_a_leader()
    world.heartbeat(2, **state)
    before = partition(world)

    result = alter(world, [2])

    assert result.error_code == ErrorCode.INVALID_REQUEST, "the other replica in sync cannot be elected"
    assert partition(world) == before


def test_a_request_for_the_current_isr_changes_nothing() -> None:
    world = world_with_a_leader()
    version = world.image.version

    result = alter(world, [1, 2])

    assert result.error_code == ErrorCode.NONE and result.partition_epoch == partition(world).partition_epoch
    assert world.image.version == version


REFUSED = [
    ("an epoch from the future", [1, 2, 0], {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
    ("a state from the future", [1, 2, 0], {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
    ("an earlier leader epoch", [1, 2, 0], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
    ("a former state", [1, 2, 0], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
    ("not the leader", [1, 2, 0], {"broker_id": 2}, ErrorCode.INVALID_REQUEST),
    ("without itself, for one not in sync", [0], {}, ErrorCode.INVALID_REQUEST),
    ("an empty ISR", [], {}, ErrorCode.INVALID_REQUEST),
    ("not a replica", [1, 2, 3], {}, ErrorCode.INVALID_REQUEST),
    ("a replica twice", [1, 2, 2], {}, ErrorCode.INVALID_REQUEST),
    ("recovering again", [1], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
    ("an unknown state", [1], {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
    ("a former process", [1, 2, 0], {"epochs": {0: 1_000}}, ErrorCode.INELIGIBLE_REPLICA),
    ("no such partition", [1], {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("a negative one", [1], {"partition_index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
]


@pytest.mark.parametrize(
    ("isr", "fields", "error"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_invalid_changes_are_rejected(isr: list[int], fields: dict[str, Any], error: ErrorCode) -> None:
    world = world_with_a_leader()
    version = world.image.version

    result = alter(world, isr, **fields)

    assert result.error_code == error
    assert world.image.version == version


@pytest.mark.parametrize("state", [{"want_fence": True}, {"want_shut_down": True}])
def test_a_fenced_or_leaving_broker_may_not_join_the_isr(state: dict[str, bool]) -> None:
    """KIP-841"""
    world = world_with_a_leader()
    world.heartbeat(0, **state)

    assert alter(world, [1, 2, 0]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_the_broker_epoch_of_a_replica_is_checked_only_if_it_is_given() -> None:
    world = world_with_a_leader()

    assert alter(world, [1, 2, 0], epochs={0: -1}).error_code == ErrorCode.NONE


def test_unknown_topics_and_repeated_partitions_are_rejected() -> None:
    world = world_with_a_leader()
    now = partition(world)
    one = AlteredPartition(
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=1)],
    )
    topic_id = world.image.topics.by_name["t"].topic_id
    topics = [
        AlteredTopic(topic_id=b"?" * 16, partitions=[one]),
        AlteredTopic(topic_id=topic_id, partitions=[one, one]),
    ]

    reply = world.submit(
        AlterPartition(broker_id=1, broker_epoch=world.image.brokers[1].broker_epoch, topics=topics)
    )

    assert isinstance(reply, AlterPartitionReply)
    codes = [[result.error_code for result in topic.partitions] for topic in reply.topics]
    assert codes == [[ErrorCode.UNKNOWN_TOPIC_ID], [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]]


def test_all_changes_of_a_replaced_process_are_rejected() -> None:
    world = world_with_a_leader()

    with pytest.raises(KafkaError) as refused:
        world.submit(AlterPartition(broker_id=1, broker_epoch=-1))

    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_the_change_that_ends_a_reassignment_may_take_the_leader_away() -> None:
    """The leader gets NEW_LEADER_ELECTED, although the record is written."""
    world = world_with_a_leader()
    moving = ReassignableTopic(
        name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[2, 3])]
    )
    world.submit(AlterPartitionReassignments(topics=[moving]))

    result = alter(world, [1, 2, 3])

    assert result.error_code == ErrorCode.NEW_LEADER_ELECTED
    after = partition(world)
    assert (after.replicas, after.isr, after.leader) == ((2, 3), (2, 3), 2)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
