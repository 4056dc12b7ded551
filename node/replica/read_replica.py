"""Chooses a replica in the rack of a consumer to read from (`replica.selector.class`, KIP-392)."""

from collections.abc import Mapping
from typing import Final

from ottla.metadata_raft.image import BrokerImage
from ottla.node.replica.partition import Partition

NO_PREFERENCE: Final = -1


def preferred_read_replica(
    partition: Partition,
    *,
    rack: str,
    fetch_offset: int,
    listener_name: str,
    brokers: Mapping[int, BrokerImage],
) -> int:
    """Return an in-sync follower in this rack that has the offset, -1 for the leader itself.

    As in Apache Kafka's RackAwareReplicaSelector: the leader if it is in the rack, otherwise the in-sync
    follower there with the most records; followers that lag would send the reader back here.
    """
    isr = partition.isr
    if isr is None or not rack:
        return NO_PREFERENCE
    leader = brokers.get(partition.assignment.leader_id)
    if leader is not None and leader.rack == rack:
        return NO_PREFERENCE
    candidates = []
    for replica_id in isr.committed:
        follower = isr.followers.get(replica_id)
        broker = brokers.get(replica_id)
        if (
            follower is not None
            and not follower.is_damaged
            and broker is not None
            and broker.rack == rack
            and not broker.fenced
            and listener_name in broker.listeners
            and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        ):
            candidates.append((follower.log_end_offset, follower.last_caught_up_ms, replica_id))
    return max(candidates)[2] if candidates else NO_PREFERENCE
