"""Partitions: their first state, manual assignments, and leaders when a broker comes up or falls."""

from collections.abc import Iterator, Sequence, Set

from logstore.errors import ErrorCode, KafkaError
from logstore.schema import replace
from metadata_raft.image import MetadataImage, PartitionImage
from metadata_raft.records import (
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    PartitionChangeRecord,
    PartitionRecord,
)


def new_partition(
    image: MetadataImage, topic_id: bytes, partition: int, replicas: Sequence[int]
) -> PartitionRecord | None:
    """The first state of a partition: all replicas that are up are in sync, the first leads; None if none."""
    isr = [replica for replica in replicas if image.brokers[replica].is_active]
    if not isr:
        return None
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[_directory_on(image, replica) for replica in replicas],
    )


def check_manual_assignment(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless `replicas` are distinct registered brokers, as many as elsewhere."""
    problem = None
    unknown = next((replica for replica in sorted(replicas) if replica not in image.brokers), None)
    twice = next((replica for replica in sorted(replicas) if replicas.count(replica) > 1), None)
    if not replicas:
        problem = "has a partition with an empty list of replicas."
    elif unknown is not None:
        problem = f"names broker {unknown}, which is not registered."
    elif twice is not None:
        problem = f"names broker {twice} more than once for a partition."
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = f"has {len(replicas)} replica(s) for one partition and {replication_factor} for another."
    if problem:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}")


def leaders_after_fence(image: MetadataImage, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Take a broker that fell out of every ISR and elect others; a last replica in sync stays, leaderless."""
    for topic_id, partition in _partitions_with(image, broker_id):
        yield from _leave(image, topic_id, partition, broker_id)


def leaders_after_offline_log_dirs(
    image: MetadataImage, broker_id: int, log_dirs: Set[bytes]
) -> Iterator[PartitionChangeRecord]:
    """The same for the replicas in these directories of a broker that is up."""
    for topic_id, partition in _partitions_with(image, broker_id):
        if partition.directory(broker_id) in log_dirs:
            yield from _leave(image, topic_id, partition, broker_id)


def leaders_after_assignment(
    image: MetadataImage, topic_id: bytes, partition: PartitionImage, broker_id: int, directory: bytes
) -> Iterator[PartitionChangeRecord]:
    """A broker says where its replica lies: that alone if it is there already, nothing if it has none."""
    if broker_id not in partition.replicas or partition.directory(broker_id) == directory:
        return
    assigned = PartitionChangeRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        directories=[
            directory if replica == broker_id else other
            for replica, other in zip(partition.replicas, partition.directories, strict=True)
        ],
    )
    broker = image.brokers[broker_id]
    if not broker.has_online_dir(directory):
        # One record for both, so that one that left the ISR is never seen in an online directory.
        change = next(_leave(image, topic_id, partition, broker_id), None)
        yield assigned if change is None else replace(change, directories=assigned.directories)
    elif not partition.has_leader and broker.is_active and broker_id in partition.isr:
        yield replace(assigned, leader=broker_id)
    else:
        yield assigned


def _leave(
    image: MetadataImage, topic_id: bytes, partition: PartitionImage, broker_id: int
) -> Iterator[PartitionChangeRecord]:
    if broker_id not in partition.isr:
        return
    isr = [replica for replica in partition.isr if replica != broker_id]
    offline = image.offline_replicas(partition)
    alive = [replica for replica in isr if image.brokers[replica].is_active and replica not in offline]
    if partition.leader == broker_id:
        leader = next((replica for replica in partition.replicas if replica in alive), NO_LEADER)
        yield PartitionChangeRecord(
            partition_id=partition.partition,
            topic_id=topic_id,
            # The last replica in sync is the only one that has every acknowledged record.
            isr=isr or None,
            leader=leader,
        )
    elif isr:
        yield PartitionChangeRecord(partition_id=partition.partition, topic_id=topic_id, isr=isr)


def leaders_after_unfence(image: MetadataImage, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Elect a broker that came up wherever it is in sync and nobody leads."""
    for topic_id, partition in _partitions_with(image, broker_id):
        if (
            not partition.has_leader
            and broker_id in partition.isr
            and image.brokers[broker_id].has_online_dir(partition.directory(broker_id))
        ):
            yield PartitionChangeRecord(partition_id=partition.partition, topic_id=topic_id, leader=broker_id)


def _partitions_with(image: MetadataImage, broker_id: int) -> Iterator[tuple[bytes, PartitionImage]]:
    for topic in image.topics.by_name.values():
        for partition in topic.partitions:
            if broker_id in partition.replicas:
                yield topic.topic_id, partition


def _directory_on(image: MetadataImage, broker_id: int) -> bytes:
    """KIP-858: with one directory there is nothing to choose; with more, the broker chooses and reports."""
    log_dirs = image.brokers[broker_id].log_dirs
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY
