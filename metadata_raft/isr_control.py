"""Decides AlterPartition: a leader changes the ISR (KIP-497, KIP-704, KIP-841, KIP-903).

The leader must know the state that it changes: leader epoch, partition epoch and broker epoch are checked,
and so is every broker that joins the ISR. A leader whose log is damaged may ask for an ISR without itself; it
leaves only if one of the others can be elected. The error codes are Apache Kafka's, for the version of the
request that names topics by id.
"""

from collections.abc import Sequence

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.cluster_control import living_broker
from ottla.metadata_raft.commands import (
    AlteredPartition,
    AlterPartition,
    AlterPartitionReply,
    AlterPartitionResult,
    AlterPartitionTopicResult,
    BrokerState,
)
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.delta import changed_partition
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata_raft.partition_change import RECOVERED, RECOVERING, change_partition
from ottla.metadata_raft.partition_control import default_election, leader_acceptor
from ottla.metadata_raft.records import NO_LEADER_CHANGE, MetadataRecord


def alter_partition(image: MetadataImage, command: AlterPartition, config: ControllerConfig) -> Decision:
    """Decide changes of ISRs; STALE_BROKER_EPOCH for all of them from a replaced run of the broker."""
    living_broker(image, command.broker_id, command.broker_epoch)
    records: list[MetadataRecord] = []
    results: list[AlterPartitionTopicResult] = []
    seen: set[tuple[bytes, int]] = set()
    for wanted in command.topics:
        topic = image.topics.by_id.get(wanted.topic_id)
        partitions = []
        for one in wanted.partitions:
            name = (wanted.topic_id, one.partition_index)
            if topic is None:
                result = _refused(one, ErrorCode.UNKNOWN_TOPIC_ID)
            elif name in seen:
                result = _refused(one, ErrorCode.INVALID_REQUEST)
            else:
                result = _alter(image, topic, one, command.broker_id, config, records)
            seen.add(name)
            partitions.append(result)
        results.append(AlterPartitionTopicResult(topic_id=wanted.topic_id, partitions=partitions))
    return Decision(records=records, reply=AlterPartitionReply(topics=results))


def _alter(
    image: MetadataImage,
    topic: TopicImage,
    wanted: AlteredPartition,
    broker_id: int,
    config: ControllerConfig,
    records: list[MetadataRecord],
) -> AlterPartitionResult:
    if not 0 <= wanted.partition_index < len(topic.partitions):
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[wanted.partition_index]
    problem = _problem(image, partition, wanted, broker_id)
    if problem is not None:
        return _refused(wanted, problem)
    new_isr = [one.broker_id for one in wanted.new_isr_with_epochs]
    is_acceptable = leader_acceptor(image, partition)
    if broker_id not in new_isr and not any(map(is_acceptable, new_isr)):
        return _refused(wanted, ErrorCode.INELIGIBLE_REPLICA)
    change = change_partition(
        image,
        topic.topic_id,
        partition,
        is_acceptable=is_acceptable,
        election=default_election(image, topic.name, config),
        isr=new_isr,
        leader_recovery_state=wanted.leader_recovery_state,
        lost=frozenset(wanted.damaged_replicas),
    )
    if change is not None:
        records.append(change)
        partition = changed_partition(partition, change)
        if change.leader not in (broker_id, NO_LEADER_CHANGE):
            # The leader has left the ISR, or the change completed a reassignment that removes it. The record
            # is committed, and the reply says that the broker is not the leader any more.
            return _refused(wanted, ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResult(
        partition_index=wanted.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _problem(
    image: MetadataImage, partition: PartitionImage, wanted: AlteredPartition, broker_id: int
) -> ErrorCode | None:
    new_isr = [one.broker_id for one in wanted.new_isr_with_epochs]
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        # The broker knows newer epochs than this controller, so there must be another controller.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(new_isr)) != len(new_isr) or not set(new_isr) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in new_isr and not _may_leave(partition, new_isr):
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state == RECOVERING and (
        len(new_isr) > 1 or partition.leader_recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if any(not _is_eligible(image, one) for one in wanted.new_isr_with_epochs):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _may_leave(partition: PartitionImage, new_isr: Sequence[int]) -> bool:
    """Return True if a leader may ask for this ISR without itself: all its members are in sync already."""
    is_settled = partition.leader_recovery_state == RECOVERED
    return is_settled and bool(new_isr) and set(new_isr) <= set(partition.isr)


def _is_eligible(image: MetadataImage, one: BrokerState) -> bool:
    broker = image.brokers.get(one.broker_id)
    return broker is not None and broker.is_active and one.broker_epoch in (-1, broker.broker_epoch)


def _refused(wanted: AlteredPartition, error: ErrorCode) -> AlterPartitionResult:
    return AlterPartitionResult(partition_index=wanted.partition_index, error_code=error)
