"""Begins, cancels and lists reassignments of partitions to other brokers (KIP-455).

A reassignment is a state of the partition, not of a controller: the adding and removing replicas are in its
record beside all replicas, so the next controller continues it. It ends in `change_partition`, with the
change of the ISR that adds the last of the new replicas.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    ReassignablePartition,
    ReassignmentResult,
    ReassignmentTopicResult,
)
from ottla.metadata_raft.controller_config import MAX_RECORDS_PER_COMMAND, ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata_raft.partition_change import RECOVERING, Reassignment, change_partition
from ottla.metadata_raft.partition_control import (
    allows_unclean_election,
    check_manual_assignment,
    default_election,
    leader_acceptor,
)
from ottla.metadata_raft.records import MetadataRecord, PartitionChangeRecord


class OngoingReassignment(NamedTuple):
    """A partition that is being reassigned."""

    topic: str
    partition: int
    replicas: Sequence[int]
    adding_replicas: Sequence[int]
    removing_replicas: Sequence[int]


def alter_partition_reassignments(
    image: MetadataImage, command: AlterPartitionReassignments, config: ControllerConfig
) -> Decision:
    """Decide reassignments, each partition by itself; POLICY_VIOLATION for all beyond 10,000 changes."""
    records: list[MetadataRecord] = []
    results = []
    seen: set[tuple[str, int]] = set()
    for wanted in command.topics:
        partitions = []
        for one in wanted.partitions:
            result = ReassignmentResult(partition_index=one.partition_index)
            try:
                if (wanted.name, one.partition_index) in seen:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition is named twice.")
                seen.add((wanted.name, one.partition_index))
                change = _alter(
                    image, wanted.name, one, config, may_resize=command.allow_replication_factor_change
                )
            except KafkaError as error:
                result = ReassignmentResult(
                    partition_index=one.partition_index, error_code=error.code, error_message=error.detail
                )
            else:
                if change is not None:
                    records.append(change)
            partitions.append(result)
        results.append(ReassignmentTopicResult(name=wanted.name, partitions=partitions))
    if len(records) > MAX_RECORDS_PER_COMMAND:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may change at most {MAX_RECORDS_PER_COMMAND} reassignments: send several requests.",
        )
    return Decision(records=records, reply=AlterPartitionReassignmentsReply(responses=results))


def ongoing_reassignments(
    image: MetadataImage, topics: Sequence[tuple[str, Sequence[int]]] | None = None
) -> Iterator[OngoingReassignment]:
    """Yield the partitions that are being reassigned: of all topics, or among the given partitions."""
    if topics is None:
        topics = [
            (name, range(len(topic.partitions))) for name, topic in sorted(image.topics.by_name.items())
        ]
    for name, indexes in topics:
        topic = image.topics.by_name.get(name)
        for index in indexes if topic is not None else ():
            if topic is not None and 0 <= index < len(topic.partitions):
                partition = topic.partitions[index]
                if _is_moving(partition):
                    yield OngoingReassignment(
                        name,
                        index,
                        partition.replicas,
                        partition.adding_replicas,
                        partition.removing_replicas,
                    )


def _alter(
    image: MetadataImage,
    name: str,
    wanted: ReassignablePartition,
    config: ControllerConfig,
    *,
    may_resize: bool,
) -> PartitionChangeRecord | None:
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= wanted.partition_index < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {name}:{wanted.partition_index}.",
        )
    partition = topic.partitions[wanted.partition_index]
    if wanted.replicas is None:
        return _cancel(image, topic, partition, config)
    check_manual_assignment(image, wanted.replicas, None)
    # A partition that is being reassigned counts with its target replicas (KIP-860).
    present = len(partition.replicas) - len(partition.removing_replicas)
    if not may_resize and len(wanted.replicas) != present:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(wanted.replicas)}",
        )
    removing = sorted(set(partition.replicas) - set(wanted.replicas))
    adding = sorted(set(wanted.replicas) - set(partition.replicas))
    if not adding:  # replicas that were being added still are, and need not be in sync
        adding = sorted(set(wanted.replicas) & set(partition.adding_replicas))
    return change_partition(
        image,
        topic.topic_id,
        partition,
        is_acceptable=leader_acceptor(image, partition),
        reassignment=Reassignment((*wanted.replicas, *removing), tuple(adding), tuple(removing)),
    )


def _cancel(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, config: ControllerConfig
) -> PartitionChangeRecord | None:
    if not _is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = _original_replicas(partition)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
    if not replicas:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Invalid replica assignment: addingReplicas contains all replicas.",
        )
    election = default_election(image, topic.name, config)
    leader_recovery_state = None
    if not isr and set(replicas).isdisjoint(partition.eligible_leader_replicas):
        # Only new replicas are in sync. Reverting to the old ones would lose records that they lack.
        if not allows_unclean_election(image, topic.name, config):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{partition.partition} because it"
                " would require an unclean leader election.",
            )
        isr, leader_recovery_state = replicas[:1], RECOVERING
    return change_partition(
        image,
        topic.topic_id,
        partition,
        is_acceptable=leader_acceptor(image, partition),
        election=election,
        isr=isr,
        reassignment=Reassignment(replicas),
        leader_recovery_state=leader_recovery_state,
    )


def _original_replicas(partition: PartitionImage) -> tuple[int, ...]:
    return tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)


def _is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)
