"""Eligible leader replicas: replicas outside the ISR that still have every acknowledged record (KIP-966).

While the ISR is smaller than `min.insync.replicas`, the leader acknowledges no record with acks=all, so a
replica that leaves the ISR then misses no acknowledged record: it is eligible, and may lead if the ISR is
empty. It stops being eligible when enough other replicas are in sync, or when it may have lost records.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Final

from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.image import EVERY_BROKER, MetadataImage, PartitionImage
from ottla.metadata_raft.records import (
    ConfigRecord,
    ConfigResourceType,
    MetadataRecord,
    PartitionChangeRecord,
)

MIN_IN_SYNC_REPLICAS: Final = "min.insync.replicas"


def min_in_sync_replicas(image: MetadataImage, topic: str, replica_count: int) -> int:
    """Return the number of replicas that must be in sync before a partition acknowledges records, at least 1.

    It is 0 in a cluster without the feature, where no replica outside the ISR is eligible. The file of a
    broker does not count: with the feature, the metadata has a value for the whole cluster. A leader that
    uses a larger value acknowledges less, which is safe.
    """
    if not image.has_eligible_leader_replicas:
        return 0
    configs = image.configs
    text = configs.topic(topic).get(MIN_IN_SYNC_REPLICAS) or configs.broker(None).get(MIN_IN_SYNC_REPLICAS)
    return max(1, min(int(text or 1), replica_count))


def eligible_beside(
    isr: Sequence[int],
    partition: PartitionImage,
    *,
    replicas: Sequence[int],
    min_isr: int,
    lost: Set[int] = frozenset(),
) -> tuple[int, ...]:
    """Return the replicas that stay or become eligible when `partition` gets this ISR and these replicas.

    Replicas in `lost` may lack acknowledged records.
    """
    if len(isr) >= min_isr:
        return ()
    known = {*partition.isr, *partition.eligible_leader_replicas}
    return tuple(sorted((known & set(replicas)) - set(isr) - lost))


def first_min_in_sync_replicas(image: MetadataImage, config: ControllerConfig) -> Iterator[MetadataRecord]:
    """Yield records that give the whole cluster one `min.insync.replicas` when the feature is enabled.

    Leaders and the controller must agree on it, so values of single brokers are removed from the metadata.
    """
    broker = ConfigResourceType.BROKER
    for (kind, name), configs in sorted(image.configs.by_resource.items()):
        if kind == broker and name != EVERY_BROKER and MIN_IN_SYNC_REPLICAS in configs:
            yield ConfigRecord(
                resource_type=broker, resource_name=name, name=MIN_IN_SYNC_REPLICAS, value=None
            )
    if MIN_IN_SYNC_REPLICAS not in image.configs.broker(None):
        value = str(config.broker_values.get(MIN_IN_SYNC_REPLICAS, 1))
        yield ConfigRecord(
            resource_type=broker, resource_name=EVERY_BROKER, name=MIN_IN_SYNC_REPLICAS, value=value
        )


def without_eligible_replicas(image: MetadataImage) -> Iterator[PartitionChangeRecord]:
    """Yield the changes of partitions when the feature is disabled: eligible replicas replace an empty ISR.

    They have every acknowledged record, so any of them may lead; without them the last known leader may.
    """
    for topic in image.topics.by_name.values():
        for partition in topic.partitions:
            eligible, last_known = partition.eligible_leader_replicas, partition.last_known_elr
            if eligible or last_known:
                led_last = tuple(one for one in last_known if one in partition.replicas)
                yield PartitionChangeRecord(
                    partition_id=partition.partition,
                    topic_id=topic.topic_id,
                    isr=None if partition.isr else eligible or led_last,
                    eligible_leader_replicas=(),
                    last_known_elr=(),
                )


def after_lower_min_in_sync_replicas(
    before: MetadataImage, after: MetadataImage
) -> Iterator[PartitionChangeRecord]:
    """Yield the partitions that lose their eligible replicas because `min.insync.replicas` was lowered.

    Their leaders may from now on acknowledge records that only the ISR has.
    """
    if not after.has_eligible_leader_replicas:
        return
    for topic in before.topics.by_name.values():
        for partition in topic.partitions:
            if partition.eligible_leader_replicas and len(partition.isr) >= min_in_sync_replicas(
                after, topic.name, len(partition.replicas)
            ):
                yield PartitionChangeRecord(
                    partition_id=partition.partition, topic_id=topic.topic_id, eligible_leader_replicas=()
                )
