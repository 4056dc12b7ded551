"""How the partitions of a broker that is to be decommissioned move elsewhere: a pure plan.

Each of its replicas gets a successor in its place of the list, so that preferred leadership moves with it: in
the rack that has the fewest replicas of the partition, and there on the broker that has the fewest of all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import ReassignablePartition, ReassignableTopic
from ottla.metadata_raft.image import MetadataImage


class AssignedPartition(NamedTuple):
    """A partition and the brokers that hold it, or will when its reassignment has ended."""

    topic: str
    partition: int
    replicas: Sequence[int]


def plan_drain(
    partitions: Iterable[AssignedPartition], racks: Mapping[int, str | None], leaving: int
) -> list[ReassignableTopic]:
    """The reassignments after which `leaving` holds nothing; `racks` has the brokers that may take replicas.

    INVALID_REPLICATION_FACTOR when a partition has replicas on all of them already.
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
    """The plan for the cluster as it is; what is on the move counts where it goes."""
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
