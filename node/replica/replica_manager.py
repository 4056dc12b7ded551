"""All partitions of this node, and the requests that wait for one of them to change.

The door between the pure replicas and the event loop: it makes the futures and timers of waiting produces and
fetches. The metadata publisher tells it which partitions to host, in which role.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping

from logstore.errors import ErrorCode, KafkaError
from logstore.topic_partition import TopicPartition
from node.replica.delayed_fetch import DelayedFetch
from node.replica.delayed_produce import DelayedProduce
from node.replica.fetch_session import FetchSessionCache
from node.replica.partition import Partition

# Kafka's default of max.incremental.fetch.session.cache.slots and min.incremental.fetch.session.eviction.ms.
DEFAULT_SESSION_SLOTS = 1000
DEFAULT_SESSION_EVICTION_MS = 120_000

log = logging.getLogger(__name__)


class ReplicaManager:
    """The partitions that this node hosts, by name."""

    def __init__(
        self,
        *,
        session_slots: int = DEFAULT_SESSION_SLOTS,
        session_eviction_ms: int = DEFAULT_SESSION_EVICTION_MS,
        chance: random.Random | None = None,
    ) -> None:
        source = chance if chance is not None else random.SystemRandom()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline: set[tuple[str, int]] = set()
        self._delayed: set[DelayedFetch | DelayedProduce] = set()
        # Set by the broker: whether the cluster has a partition that this node does not host.
        self.is_in_cluster: Callable[[str, int], bool] = lambda topic, partition: False
        self.sessions = FetchSessionCache(
            max_slots=session_slots,
            eviction_ms=session_eviction_ms,
            random_id=lambda: source.randrange(1, 2**31),
        )

    # ---- partitions ------------------------------------------------------------------------------

    def partition(self, topic_partition: tuple[str, int]) -> Partition:
        """The replica of a partition on this node.

        UNKNOWN_TOPIC_OR_PARTITION if the cluster has no such partition, NOT_LEADER_OR_FOLLOWER if other nodes
        have it, KAFKA_STORAGE_ERROR if the disk that it lies on has failed.
        """
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self._offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log dir of {topic_partition} is offline")
        if self.is_in_cluster(*topic_partition):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def find(self, topic_partition: tuple[str, int]) -> Partition | None:
        """The replica of a partition on this node, None if it hosts none."""
        return self._partitions.get(topic_partition)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def host(self, partition: Partition) -> None:
        """Serve a partition from now on."""
        self._partitions[partition.topic_partition] = partition
        self._offline.discard(partition.topic_partition)

    def drop(self, topic_partition: TopicPartition) -> Partition | None:
        """Serve a partition no more; whoever waits for it is answered."""
        self._offline.discard(topic_partition)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            partition.close()
        return partition

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The disk of these partitions has failed."""
        for topic_partition in topic_partitions:
            self.drop(topic_partition)
            self._offline.add(topic_partition)

    # ---- waiting requests ------------------------------------------------------------------------

    def delay_produce(
        self, places: Mapping[Partition, int], timeout_ms: int
    ) -> "asyncio.Future[Mapping[Partition, ErrorCode]]":
        """Wait until every partition's high watermark is at its offset, or `timeout_ms` are over."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Mapping[Partition, ErrorCode]] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(delayed.results)  # type: ignore[arg-type]

        delayed = DelayedProduce(wake=wake)
        for partition, required_offset in places.items():
            delayed.watch(partition, required_offset=required_offset, leader_epoch=partition.leader_epoch)
        timer = loop.call_later(max(0, timeout_ms) / 1000, delayed.expire)
        self._keep(delayed, timer, future)
        for partition in places:
            delayed.check(partition)
        return future

    def delay_fetch(self, min_bytes: int, max_wait_ms: int) -> "tuple[DelayedFetch, asyncio.Future[None]]":
        """A fetch that will wait for what it is made to watch, `max_wait_ms` at most."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        delayed = DelayedFetch(min_bytes=min_bytes, wake=wake)
        self._keep(delayed, loop.call_later(max_wait_ms / 1000, delayed.finish), future)
        return delayed, future

    def _keep(
        self,
        delayed: DelayedFetch | DelayedProduce,
        timer: asyncio.TimerHandle,
        future: "asyncio.Future[None] | asyncio.Future[Mapping[Partition, ErrorCode]]",
    ) -> None:
        self._delayed.add(delayed)

        def forget(_: object) -> None:
            # Also when the connection is gone: its future is cancelled, and nobody waits any more.
            timer.cancel()
            if not delayed.is_done:
                delayed.cancel()
            self._delayed.discard(delayed)

        future.add_done_callback(forget)

    def answer_waiting(self) -> None:
        """Answer all waiting fetches and produces with what there is: the node stops."""
        for delayed in tuple(self._delayed):
            if isinstance(delayed, DelayedFetch):
                delayed.finish()
            else:
                delayed.expire()
