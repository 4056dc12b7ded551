"""Replicas of this node whose logs are damaged: out of the ISR, and not leading, until they are repaired.

A damaged leader asks the controller for the ISR without itself; a damaged follower tells its leader with its
fetches. Where no other replica in sync is whole it stays: a damaged copy is better than none.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.replica.partition import Partition

LEAVE_S: Final = 10.0  # how long a repair waits for the replica to be out of the ISR; then it goes on
CHECK_S: Final = 0.02


class DamagedReplicas:
    """Tells the replicas of a node which of them the scrub found damaged or repaired."""

    def __init__(
        self,
        *,
        find: Callable[[TopicPartition], Partition | None],
        tell_leader: Callable[[TopicPartition], None],
        leave_s: float = LEAVE_S,
    ) -> None:
        """`tell_leader`: of a follower, how it is now."""
        self._find = find
        self._tell_leader = tell_leader
        self._leave_s = leave_s

    def note(self, name: TopicPartition, *, damaged: bool) -> None:
        """Batches of this replica are damaged, or all are whole."""
        partition = self._find(name)
        if partition is not None and partition.damaged != damaged:
            partition.set_damaged(damaged)
            self._tell_leader(name)

    async def step_aside(self, name: TopicPartition) -> None:
        """Wait until the replica, which is damaged, is out of the ISR; not where nobody can relieve it."""
        self.note(name, damaged=True)
        now = asyncio.get_running_loop().time
        deadline = now() + self._leave_s
        while (partition := self._find(name)) is not None and partition.may_be_relieved and now() < deadline:
            await asyncio.sleep(CHECK_S)

    def circumstances(self, name: TopicPartition) -> object:
        """Return what a repair depends on: one that failed is worth another try when this is another."""
        partition = self._find(name)
        if partition is None:
            return None
        assignment = partition.assignment
        return assignment.leader_id, assignment.in_sync_replicas, assignment.replicas
