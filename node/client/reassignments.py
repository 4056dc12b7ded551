"""The progress of reassignments: the bytes of the new replicas compared with those of the leader."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import cluster_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.log_dirs import BrokerLogDirs, describe_log_dirs
from ottla.node.wire.messages.list_partition_reassignments import OngoingPartitionReassignment


class ReplicaProgress(NamedTuple):
    """A replica that is being copied; None for sizes that its broker or the leader's does not return."""

    broker_id: int
    copied_bytes: int | None
    total_bytes: int | None


class MoveProgress(NamedTuple):
    """A partition that is being reassigned. Its leader still accepts records, so its size may grow."""

    partition: TopicPartition
    leader: int
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    copies: Sequence[ReplicaProgress]

    @property
    def bytes_left(self) -> int | None:
        """Return the bytes that are still to be copied, to all new replicas together."""
        left = 0
        for one in self.copies:
            if one.copied_bytes is None or one.total_bytes is None:
                return None
            left += max(0, one.total_bytes - one.copied_bytes)
        return left

    @property
    def percent(self) -> float | None:
        """Return the copied share in percent; None while that is unknown."""
        left = self.bytes_left
        if left is None:
            return None
        total = sum(one.total_bytes or 0 for one in self.copies)
        return 100.0 if total == 0 else round(100.0 * (total - left) / total, 1)


def progress_of(
    moves: Mapping[TopicPartition, OngoingPartitionReassignment],
    leaders: Mapping[TopicPartition, int],
    log_dirs: Sequence[BrokerLogDirs],
) -> list[MoveProgress]:
    """Return the progress from the sizes of the replicas. A copy begins where its leader's log does, so bytes
    compare.
    """
    sizes = {
        (broker.broker_id, replica.partition): replica.size_bytes
        for broker in log_dirs
        for log_dir in broker.log_dirs
        for replica in log_dir.replicas
        if not replica.is_future
    }
    answered = {one.broker_id for one in log_dirs if one.error is None}

    def size(broker_id: int, partition: TopicPartition) -> int | None:
        # A broker that answers without this log has not begun to copy it.
        return sizes.get((broker_id, partition), 0 if broker_id in answered else None)

    found: list[MoveProgress] = []
    for partition, move in sorted(moves.items()):
        leader = leaders.get(partition, -1)
        total = size(leader, partition) if leader >= 0 else None
        copies = [ReplicaProgress(one, size(one, partition), total) for one in move.adding_replicas]
        found.append(
            MoveProgress(
                partition, leader, move.replicas, move.adding_replicas, move.removing_replicas, copies
            )
        )
    return found


async def moves_in_progress(client: Client) -> list[MoveProgress]:
    """Return the progress of all partitions that are being reassigned."""
    moves = await cluster_admin.list_moves(client)
    if not moves:
        return []
    await client.refresh(sorted({one.topic for one in moves}))
    leaders = {
        one: client.topics[one.topic].leaders.get(one.partition, -1)
        for one in moves
        if one.topic in client.topics
    }
    holders = {broker for one in moves.values() for broker in one.adding_replicas}
    holders |= {leader for leader in leaders.values() if leader >= 0}
    log_dirs = await describe_log_dirs(client, broker_ids=sorted(holders), partitions=sorted(moves))
    return progress_of(moves, leaders, log_dirs)
