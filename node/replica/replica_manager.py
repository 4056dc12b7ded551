"""All partitions of this node, and the requests that wait for one of them to change.

The door between the pure replicas and the event loop: it makes the futures and timers of waiting produces and
fetches. The metadata publisher tells it which partitions to host, in which role.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from logstore.errors import ErrorCode, KafkaError
from logstore.log_config import LogConfig
from logstore.log_manager import LogManager
from logstore.partition_log import PartitionLog
from logstore.topic_partition import TopicPartition
from metadata_raft.delta import MetadataChanges
from metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from metadata_raft.records import ConfigResourceType
from node.replica.delayed_fetch import DelayedFetch
from node.replica.delayed_produce import DelayedProduce
from node.replica.fetch_session import FetchSessionCache
from node.replica.partition import Assignment, Partition

# Kafka's default of max.incremental.fetch.session.cache.slots and min.incremental.fetch.session.eviction.ms.
DEFAULT_SESSION_SLOTS = 1000
DEFAULT_SESSION_EVICTION_MS = 120_000
# A new log costs some 1.5 ms of file operations. So many are made before a change of the metadata is
# answered, or between two turns of the loop; the rest of a large topic follows, or comes when asked for.
HOSTED_AT_ONCE = 16

log = logging.getLogger(__name__)


class Unhosted(NamedTuple):
    """A partition that the metadata gave this node and whose log is still to be made or found."""

    topic_id: bytes
    assignment: Assignment
    is_new: bool


class ReplicaManager:
    """The partitions that this node hosts, by name."""

    def __init__(
        self,
        *,
        broker_id: int,
        log_manager: LogManager,
        image: Callable[[], MetadataImage],
        log_config: Callable[[MetadataImage, str], LogConfig],
        on_placed: Callable[[TopicPartition, PartitionLog | None], None] = lambda name, log: None,
        session_slots: int = DEFAULT_SESSION_SLOTS,
        session_eviction_ms: int = DEFAULT_SESSION_EVICTION_MS,
        chance: random.Random | None = None,
    ) -> None:
        """`on_placed` is told where a partition's log lies, None if that is not known."""
        source = chance if chance is not None else random.SystemRandom()
        self._broker_id = broker_id
        self._log_manager = log_manager
        self._image = image
        self._log_config = log_config
        self._on_placed = on_placed
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._unhosted: dict[TopicPartition, Unhosted] = {}
        self._has_unhosted = asyncio.Event()
        self._offline: set[tuple[str, int]] = set()
        self._has_started = False
        self._delayed: dict[DelayedFetch | DelayedProduce, None] = {}
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
        partition = self._partitions.get(topic_partition) or self.find(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self._offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The log directory of {TopicPartition(*topic_partition)} is offline.",
            )
        if self._image().topics.partition(TopicPartition(*topic_partition)) is not None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def find(self, topic_partition: tuple[str, int]) -> Partition | None:
        """The replica of a partition on this node, None if it hosts none."""
        partition = self._partitions.get(topic_partition)
        if partition is None and topic_partition in self._unhosted:
            self._host(TopicPartition(*topic_partition))
            return self._partitions.get(topic_partition)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    # ---- what the metadata say -------------------------------------------------------------------

    def apply(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Host, lead, follow and drop partitions as the new image says, and hand new settings to their logs.

        The first call, at start, brings everything that there is. A log that cannot be opened does not hold
        up the others: its partition is offline. Of many new logs the first are made at once, the others by
        `host_the_rest` or when somebody asks for them.
        """
        for before, after in changes.topics:
            if before is not None and (after is None or after.topic_id != before.topic_id):
                for topic_partition in before.topic_partitions():
                    self._remove(topic_partition)
            if after is not None:
                self._apply_topic(image, after, is_new=before is None and self._has_started)
        # What is there at start is open already: only its roles are given out.
        self._host_some(HOSTED_AT_ONCE if self._has_started else len(self._unhosted))
        self._has_started = True
        for kind, name in changes.configs:
            if kind == ConfigResourceType.TOPIC:
                self.update_config(image, name)
            elif kind == ConfigResourceType.BROKER:
                for topic in image.topics.by_name:
                    self.update_config(image, topic)

    def replace_log(self, topic_partition: TopicPartition, partition_log: PartitionLog) -> None:
        """The partition's log lies in another log directory from now on."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            partition.log = partition_log
            self._on_placed(topic_partition, partition_log)

    def update_config(self, image: MetadataImage, topic: str) -> None:
        """The settings of a topic (or of the broker below it) have changed."""
        topic_image = image.topics.by_name.get(topic)
        if topic_image is None:
            return
        config = self._log_config(image, topic)
        for topic_partition in topic_image.topic_partitions():
            partition = self._partitions.get(topic_partition)
            if partition is not None and partition.log.config != config:
                partition.log.update_config(config)

    async def host_the_rest(self) -> None:
        """Make the logs that `apply` left, a few in each turn of the loop, for as long as the node runs."""
        while True:
            await self._has_unhosted.wait()
            self._host_some(HOSTED_AT_ONCE)
            await asyncio.sleep(0)

    def _apply_topic(self, image: MetadataImage, topic: TopicImage, *, is_new: bool) -> None:
        for one in topic.partitions:
            topic_partition = TopicPartition(topic.name, one.partition)
            if self._broker_id not in one.replicas:
                if topic_partition in self._partitions or topic_partition in self._unhosted:
                    self._remove(topic_partition)
                continue
            hosted = self._partitions.get(topic_partition)
            if hosted is not None:
                hosted.assign(_assignment(one))
                continue
            waiting = self._unhosted.get(topic_partition)
            self._unhosted[topic_partition] = Unhosted(
                topic.topic_id, _assignment(one), is_new if waiting is None else waiting.is_new
            )

    def _host_some(self, count: int) -> None:
        for topic_partition in tuple(islice(self._unhosted, count)):
            self._host(topic_partition)
        if self._unhosted:
            self._has_unhosted.set()
        else:
            self._has_unhosted.clear()

    def _host(self, topic_partition: TopicPartition) -> None:
        """Open or make the partition's log and serve it; it is offline where that fails."""
        topic_id, assignment, is_new = self._unhosted.pop(topic_partition)
        try:
            partition_log = self._log_manager.get_or_create(
                topic_partition,
                topic_id,
                self._log_config(self._image(), topic_partition.topic),
                is_new=is_new,
            )
            partition = Partition(
                broker_id=self._broker_id, log=partition_log, topic_id=topic_id, assignment=assignment
            )
        except KafkaError as error:
            if topic_partition not in self._offline:
                log.error("%s cannot be served: %s", topic_partition, error)
            self._offline.add(topic_partition)
            self._on_placed(topic_partition, None)
            return
        self._offline.discard(topic_partition)
        self._partitions[topic_partition] = partition
        self._on_placed(topic_partition, partition_log)

    def _remove(self, topic_partition: TopicPartition) -> None:
        """The partition leaves this node, and its files go."""
        self._drop(topic_partition)
        self._log_manager.delete(topic_partition)

    def _drop(self, topic_partition: TopicPartition) -> Partition | None:
        self._offline.discard(topic_partition)
        self._unhosted.pop(topic_partition, None)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            partition.close()
        return partition

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The disk of these partitions has failed."""
        for topic_partition in topic_partitions:
            self._drop(topic_partition)
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
        self._delayed[delayed] = None

        def forget(_: object) -> None:
            # Also when the connection is gone: its future is cancelled, and nobody waits any more.
            timer.cancel()
            if not delayed.is_done:
                delayed.cancel()
            self._delayed.pop(delayed, None)

        future.add_done_callback(forget)

    def answer_waiting(self) -> None:
        """Answer all waiting fetches and produces with what there is: the node stops."""
        for delayed in tuple(self._delayed):
            if isinstance(delayed, DelayedFetch):
                delayed.finish()
            else:
                delayed.expire()


def _assignment(image: PartitionImage) -> Assignment:
    return Assignment(
        leader_id=image.leader,
        leader_epoch=image.leader_epoch,
        partition_epoch=image.partition_epoch,
        replicas=image.replicas,
        in_sync_replicas=image.isr,
    )
