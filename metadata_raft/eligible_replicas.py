"""Eligible leader replicas: those out of the ISR that still have every acknowledged record (KIP-966).

While fewer replicas are in sync than `min.insync.replicas` asks for, the leader acknowledges nothing that
waits for all, so whoever leaves the ISR then misses nothing: it stays eligible, and may lead once nobody is
in sync. It is eligible no more when enough replicas are in sync without it, or when it may have lost what it
had.
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
    """Return how many replicas of a partition must be in sync before anything is acknowledged, at least 1.

    0 where no replica is eligible beside the ISR, as the cluster has not got the feature. A broker's own file
    does not count: with the feature, the metadata have a value for the whole cluster. A leader that asks for
    more acknowledges less, which harms nobody.
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
    """Return who stays or becomes eligible when `partition` gets this ISR and these replicas.

    Those in `lost` may lack acknowledged records.
    """
    if len(isr) >= min_isr:
        return ()
    known = {*partition.isr, *partition.eligible_leader_replicas}
    return tuple(sorted((known & set(replicas)) - set(isr) - lost))


def first_min_in_sync_replicas(image: MetadataImage, config: ControllerConfig) -> Iterator[MetadataRecord]:
    """Yield what makes `min.insync.replicas` known to the whole cluster when the feature begins.

    Leaders and controller must not differ about it, so no broker keeps a value of its own in the metadata.
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
    """Yield what partitions become when the feature ends: where nobody is in sync, the eligible replicas are.

    They have every acknowledged record, so any of them may lead; failing them, the last leader may.
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
    """Yield where nobody is eligible beside the ISR any more, as settings ask for fewer replicas in sync.

    From now on their leaders acknowledge what only these have.
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
