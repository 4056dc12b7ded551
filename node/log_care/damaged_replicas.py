"""Keeps replicas whose logs are damaged out of the ISR, and from leading, until they are repaired.

A damaged leader asks the controller for an ISR without itself; a damaged follower informs its leader in its
fetches. If no other replica in the ISR is intact, it stays: a damaged copy is better than none.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.replica.partition import Partition

LEAVE_S: Final = 10.0  # a repair waits this long for the replica to leave the ISR, then continues anyway
CHECK_S: Final = 0.02


class DamagedReplicas:
    """Marks the replicas of a node that the scrub found damaged or repaired."""

    def __init__(
        self,
        *,
        find: Callable[[TopicPartition], Partition | None],
        notify_leader: Callable[[TopicPartition], None],
        leave_s: float = LEAVE_S,
    ) -> None:
        """`notify_leader` informs the leader of a follower that its state has changed."""
        self._find = find
        self._notify_leader = notify_leader
        self._leave_s = leave_s

    def note(self, name: TopicPartition, *, damaged: bool) -> None:
        """Mark a replica as damaged, or as intact, and inform its leader if that is new."""
        partition = self._find(name)
        if partition is not None and partition.damaged != damaged:
            partition.set_damaged(damaged)
            self._notify_leader(name)

    async def leave_isr(self, name: TopicPartition) -> None:
        """Mark a replica as damaged; wait until it has left the ISR, if that has other intact replicas."""
        self.note(name, damaged=True)
        now = asyncio.get_running_loop().time
        deadline = now() + self._leave_s
        while (partition := self._find(name)) is not None and partition.may_leave_isr and now() < deadline:
            await asyncio.sleep(CHECK_S)

    def placement(self, name: TopicPartition) -> object:
        """Return a value that differs once a failed repair is worth a retry: leader, ISR and replicas."""
        partition = self._find(name)
        if partition is None:
            return None
        assignment = partition.assignment
        return assignment.leader_id, assignment.in_sync_replicas, assignment.replicas
