"""Keeps this node's replicas in sync with their leaders, and the ISRs that it leads up to date.

The replica manager reports changed roles. Here each leader has a fetcher that copies from it, ISR proposals
are sent to the controller, and ISRs are checked in time: a follower that lags is removed, one that came back
is added.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.commands import AlterPartition, AlterPartitionReply
from ottla.node.replica.follower_fetcher import FetcherWorld, FollowerFetcher
from ottla.node.replica.follower_state import Key
from ottla.node.replica.isr_updates import IsrUpdates
from ottla.node.replica.partition import NO_LEADER, Partition
from ottla.node.replica.replica_manager import ReplicaManager

# Apache Kafka checks every half of replica.lag.time.max.ms; a second is soon enough for one that came back.
MAX_CHECK_S: Final = 1.0


class Replication:
    """The replication of one node. It runs on the event loop; `run` is its task."""

    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        world: FetcherWorld,
        num_fetchers: Callable[[], int],
        alter_partition: Callable[[AlterPartition], Awaitable[AlterPartitionReply]],
    ) -> None:
        self._replicas = replicas
        self._world = world
        self._num_fetchers = num_fetchers
        self._fetchers: dict[tuple[int, int], FollowerFetcher] = {}
        self._followed: dict[TopicPartition, tuple[FollowerFetcher, Key]] = {}
        self._started: asyncio.TaskGroup | None = None
        self._updates = IsrUpdates(
            broker_id=world.broker_id,
            broker_epoch=replicas.context.broker_epoch,
            alter_partition=alter_partition,
        )
        replicas.context.propose = self._updates.propose
        replicas.watch(self.role_changed, self.dropped)
        for partition in replicas:
            self.role_changed(partition)

    @property
    def isr_updates(self) -> IsrUpdates:
        """Return the ISR proposals, with counters of ISR changes."""
        return self._updates

    @property
    def fetchers(self) -> tuple[FollowerFetcher, ...]:
        return tuple(self._fetchers.values())

    def role_changed(self, partition: Partition) -> None:
        """Follow the leader that the metadata name, if it is another node."""
        leader_id = partition.assignment.leader_id
        name = partition.topic_partition
        if partition.is_leader or leader_id in (NO_LEADER, self._world.broker_id):
            self.dropped(name)
            return
        fetcher = self._fetcher(leader_id, name)
        key = partition.topic_id, name.partition
        before = self._followed.get(name)
        if before is not None and before != (fetcher, key):
            self.dropped(name)
        self._followed[name] = (fetcher, key)
        fetcher.add(partition)

    def report_again(self, name: TopicPartition) -> None:
        """Report the state of this replica to the leader again, if this node follows one."""
        followed = self._followed.get(name)
        if followed is not None:
            fetcher, key = followed
            fetcher.report_again(key)

    def dropped(self, name: TopicPartition) -> None:
        """Stop following a leader with this partition."""
        followed = self._followed.pop(name, None)
        if followed is not None:
            fetcher, key = followed
            fetcher.remove(key)

    def _fetcher(self, leader_id: int, name: TopicPartition) -> FollowerFetcher:
        fetcher_id = zlib.crc32(str(name).encode()) % max(1, self._num_fetchers())
        fetcher = self._fetchers.get((leader_id, fetcher_id))
        if fetcher is None:
            fetcher = self._fetchers[leader_id, fetcher_id] = FollowerFetcher(
                leader_id, fetcher_id, self._world
            )
            if self._started is not None:
                _begin(self._started, fetcher.run())
        return fetcher

    async def run(self) -> None:
        """Replicate for as long as the node runs."""
        async with asyncio.TaskGroup() as tasks:
            self._started = tasks
            tasks.create_task(self._updates.run())
            tasks.create_task(self._check_isrs())
            for fetcher in self._fetchers.values():
                tasks.create_task(fetcher.run())

    async def _check_isrs(self) -> None:
        while True:
            lag_s = self._replicas.context.max_lag_ms() / 1000
            await asyncio.sleep(min(MAX_CHECK_S, max(0.01, lag_s / 2)))
            await self._replicas.check_isrs_in_turns()


def _begin(tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
    """Start a task, unless the node is stopping: metadata still arrive then, but no new task may start."""
    try:
        tasks.create_task(work)
    except RuntimeError:
        work.close()
