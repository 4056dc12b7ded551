"""Plans the moves of all partitions away from a broker to decommission. Pure.

Each of its replicas is replaced at the same position of the list, so that preferred leadership moves with it.
The replacement is in the rack with the fewest replicas of the partition, on the broker there with the fewest
in all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import ReassignablePartition, ReassignableTopic
from ottla.metadata_raft.image import MetadataImage


class AssignedPartition(NamedTuple):
    """A partition and its brokers, after its reassignment if there is one."""

    topic: str
    partition: int
    replicas: Sequence[int]


def plan_drain(
    partitions: Iterable[AssignedPartition], racks: Mapping[int, str | None], leaving: int
) -> list[ReassignableTopic]:
    """Return reassignments that empty the broker `leaving`; `racks` has the brokers that may take replicas.

    INVALID_REPLICATION_FACTOR if a partition has replicas on all of them already.
    """
    partitions = list(partitions)
    load = Counter(replica for one in partitions for replica in one.replicas)
    planned: dict[str, list[ReassignablePartition]] = {}
    for one in partitions:
        if leaving not in one.replicas:
            continue
        candidates = [broker_id for broker_id in racks if broker_id not in one.replicas]
        if not candidates:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Broker {leaving} cannot be drained: {one.topic}-{one.partition} has "
                f"{len(one.replicas)} replicas, and there is no other broker to take "
                "this one. Add a broker, or reduce the replication factor of the "
                "topic.",
            )
        used = Counter(racks.get(replica) for replica in one.replicas if replica != leaving)
        successor = min(candidates, key=lambda other: (used[racks[other]], load[other], other))
        load[successor] += 1
        replicas = [successor if replica == leaving else replica for replica in one.replicas]
        planned.setdefault(one.topic, []).append(
            ReassignablePartition(partition_index=one.partition, replicas=replicas)
        )
    return [ReassignableTopic(name=name, partitions=moved) for name, moved in planned.items()]


def drain_of(image: MetadataImage, leaving: int) -> list[ReassignableTopic]:
    """Return the plan for the current cluster; ongoing reassignments count with their target replicas."""
    partitions = [
        AssignedPartition(
            name,
            partition.partition,
            [replica for replica in partition.replicas if replica not in partition.removing_replicas],
        )
        for name, topic in sorted(image.topics.by_name.items())
        for partition in topic.partitions
    ]
    racks = {broker.broker_id: broker.rack for broker in image.active_brokers()}
    racks.pop(leaving, None)
    return plan_drain(partitions, racks, leaving)
