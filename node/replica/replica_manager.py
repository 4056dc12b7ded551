"""All partitions of this node, and the requests that wait for one of them to change.

The door between the pure replicas and the event loop: it makes the futures and timers of waiting produces and
fetches. The metadata publisher tells it which partitions to host, in which role.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.counters.topic_counters import TopicCounters, without_topics
from ottla.node.replica.delayed_delete import DELETES, Deletion
from ottla.node.replica.delayed_fetch import DelayedFetch
from ottla.node.replica.delayed_operation import DelayedOperation, Kind
from ottla.node.replica.delayed_produce import PRODUCES, RequiredOffset
from ottla.node.replica.fetch_session import DEFAULT_LIMIT_BYTES, FetchSessionCache
from ottla.node.replica.follower_session import FollowerSession, FollowerSessions
from ottla.node.replica.partition import Assignment, Partition
from ottla.node.replica.replica_context import ReplicaContext
from ottla.node.replica.replication_quota import ReplicationQuotas

# Kafka's default of max.incremental.fetch.session.cache.slots and min.incremental.fetch.session.eviction.ms.
DEFAULT_SESSION_SLOTS = 1000
DEFAULT_SESSION_EVICTION_MS = 120_000
# How long a new high watermark waits for records to go with. No acknowledgement waits for it, only readers of
# followers do; sent at once it would double the requests of a busy node.
OFFSET_NEWS_WAIT_S = 0.005
DEFAULT_LAG_MS = 30_000  # of replica.lag.time.max.ms
# A new log costs some 1.5 ms of file operations. So many are made before a change of the metadata is
# answered, or between two turns of the loop; the rest of a large topic follows, or comes when asked for.
HOSTED_AT_ONCE = 4
# To rename a log's directory takes some 0.2 ms, and ten times as long on a disk that is busy.
REMOVED_AT_ONCE = 8
# To look at a partition's ISR takes some 5 us.
CHECKED_AT_ONCE = 512

G = TypeVar("G")
R = TypeVar("R")

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
        monotonic_ms: Callable[[], int] = lambda: 0,
        max_lag_ms: Callable[[], int] = lambda: DEFAULT_LAG_MS,
        broker_epoch: Callable[[], int] = lambda: -1,
        session_slots: int = DEFAULT_SESSION_SLOTS,
        session_eviction_ms: int = DEFAULT_SESSION_EVICTION_MS,
        session_bytes: int = DEFAULT_LIMIT_BYTES,
        is_open: Callable[[int], bool] = lambda number: True,
        chance: random.Random | None = None,
        quota_windows: int = 11,
        quota_window_seconds: int = 1,
    ) -> None:
        """`on_placed` is told where a partition's log lies, None if that is not known.

        `session_bytes` is what fetch sessions may take, `is_open` tells of a connection's number whether it
        has not ended. A node among others needs a clock that only goes forward, `replica.lag.time.max.ms` and
        its own epoch.
        """
        source = chance if chance is not None else random.SystemRandom()
        self._broker_id = broker_id
        self.context: ReplicaContext[Partition] = ReplicaContext(
            broker_id=broker_id,
            now_ms=monotonic_ms,
            max_lag_ms=max_lag_ms,
            broker_epoch=broker_epoch,
            is_alive=self._is_alive,
            is_eligible=self._is_eligible,
            is_current=self._is_current,
            propose=lambda _, __: None,
            flush_soon=lambda _: None,
        )
        # Told of each partition whose role or leader epoch is new, and of each that is served no more.
        self.on_role: Callable[[Partition], None] = lambda _: None
        self.on_dropped: Callable[[TopicPartition], None] = lambda _: None
        self.on_fetch_woken: Callable[[], None] = lambda: None  # of each fetch that has waited
        self.quotas = ReplicationQuotas(
            broker_id=broker_id, windows=quota_windows, window_seconds=quota_window_seconds
        )
        self._log_manager = log_manager
        self._image = image
        self._log_config = log_config
        self._on_placed = on_placed
        self._partitions: dict[tuple[str, int], Partition] = {}
        # Of topics that have, or had, a partition here, and of those that were deleted: DELETED_TOPICS.
        self.counters: dict[str, TopicCounters] = {}
        self._unhosted: dict[TopicPartition, Unhosted] = {}
        self._unhosted_by_topic: dict[str, dict[TopicPartition, None]] = {}  # who waited longest comes first
        self._doomed: dict[TopicPartition, None] = {}  # whose logs are to be removed
        self._has_rest = asyncio.Event()
        self._offline: set[tuple[str, int]] = set()
        self._has_started = False
        self._delayed: dict[DelayedFetch | DelayedOperation[Any, Any, Any], None] = {}
        self.follower_sessions = FollowerSessions(lambda: source.randrange(1, 2**31))
        self.sessions = FetchSessionCache(
            max_slots=session_slots,
            eviction_ms=session_eviction_ms,
            random_id=lambda: source.randrange(1, 2**31),
            limit_bytes=session_bytes,
            is_open=is_open,
            others_bytes=lambda: self.follower_sessions.used_bytes,
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

    @property
    def has_unhosted(self) -> bool:
        """Say whether there are partitions whose logs are still to be made."""
        return bool(self._unhosted)

    def counters_of(self, topic: str) -> TopicCounters | None:
        """What is counted of a topic, None if none of its partitions is here."""
        return self.counters.get(topic)

    @property
    def offline_count(self) -> int:
        """Partitions that should be here and whose disk has failed."""
        return len(self._offline)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    # ---- what the metadata say -------------------------------------------------------------------

    def apply(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Host, lead, follow and drop partitions as the new image says, and hand new settings to their logs.

        The first call, at start, brings everything that there is. A log that cannot be opened does not hold
        up the others: its partition is offline. Of many new logs the first are made at once, the others by
        `host_the_rest` or when somebody asks for them; of many that go the first are removed at once.
        """
        gone = {
            before.name
            for before, after in changes.topics
            if before is not None and (after is None or after.topic_id != before.topic_id)
        }
        if not gone.isdisjoint(self.counters):
            self.counters = without_topics(self.counters, gone)
        for before, after in changes.topics:
            if before is not None and (after is None or after.topic_id != before.topic_id):
                for topic_partition in before.topic_partitions():
                    self._remove(topic_partition)
            if after is not None:
                self._apply_topic(image, after, is_new=before is None and self._has_started)
        self._remove_some(REMOVED_AT_ONCE)
        # What is there at start is open already: only its roles are given out.
        self._host_some(HOSTED_AT_ONCE if self._has_started else len(self._unhosted))
        self._has_started = True
        for kind, name in changes.configs:
            if kind == ConfigResourceType.TOPIC:
                self.update_config(image, name)
            elif kind == ConfigResourceType.BROKER:
                for topic in image.topics.by_name:
                    self.update_config(image, topic)
        if changes.brokers:
            self.check_isrs()  # one that came back may be let in

    def replace_log(self, topic_partition: TopicPartition, partition_log: PartitionLog) -> None:
        """The partition's log lies in another log directory from now on."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            partition.replace_log(partition_log)
            self._on_placed(topic_partition, partition_log)

    def log_flushed(self, partition_log: PartitionLog) -> None:
        """More of this log is on the disk."""
        partition = self._partitions.get(partition_log.topic_partition)
        if partition is not None and partition.log is partition_log:
            partition.log_flushed()

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
        """Make and remove the logs that `apply` left, a few in each turn of the loop, for as long as the node
        runs; what is to be removed then is removed at its end.
        """
        try:
            while True:
                await self._has_rest.wait()
                self._host_some(HOSTED_AT_ONCE)
                await asyncio.sleep(0)
                self._remove_some(REMOVED_AT_ONCE)
                await asyncio.sleep(0)
        finally:
            self._remove_some(len(self._doomed))

    def _apply_topic(self, image: MetadataImage, topic: TopicImage, *, is_new: bool) -> None:
        for one in topic.partitions:
            topic_partition = TopicPartition(topic.name, one.partition)
            if self._broker_id not in one.replicas:
                if topic_partition in self._partitions or topic_partition in self._unhosted:
                    self._remove(topic_partition)
                continue
            hosted = self._partitions.get(topic_partition)
            if hosted is not None:
                assignment = _assignment(one)
                if assignment != hosted.assignment and hosted.assign(assignment):
                    self.on_role(hosted)
                continue
            waiting = self._unhosted.get(topic_partition)
            self._unhosted[topic_partition] = Unhosted(
                topic.topic_id, _assignment(one), is_new if waiting is None else waiting.is_new
            )
            self._unhosted_by_topic.setdefault(topic.name, {})[topic_partition] = None

    def _host_some(self, count: int) -> None:
        """Make so many logs, of each topic one in turn: a small topic does not wait for a large one."""
        for _ in range(min(count, len(self._unhosted))):
            topic = next(iter(self._unhosted_by_topic))
            waiting = self._unhosted_by_topic.pop(topic)
            self._unhosted_by_topic[topic] = waiting
            self._host(next(iter(waiting)))
        self._tell_rest()

    def _take_unhosted(self, topic_partition: TopicPartition) -> Unhosted | None:
        """Take a partition from those that wait for their logs, if it is one."""
        unhosted = self._unhosted.pop(topic_partition, None)
        if unhosted is not None:
            waiting = self._unhosted_by_topic[topic_partition.topic]
            del waiting[topic_partition]
            if not waiting:
                del self._unhosted_by_topic[topic_partition.topic]
        return unhosted

    def _remove_some(self, count: int) -> None:
        for topic_partition in tuple(islice(self._doomed, count)):
            del self._doomed[topic_partition]
            self._log_manager.delete(topic_partition)
        self._tell_rest()

    def _tell_rest(self) -> None:
        if self._unhosted or self._doomed:
            self._has_rest.set()
        else:
            self._has_rest.clear()

    def _host(self, topic_partition: TopicPartition) -> None:
        """Open or make the partition's log and serve it; it is offline where that fails."""
        unhosted = self._take_unhosted(topic_partition)
        assert unhosted is not None, topic_partition
        topic_id, assignment, is_new = unhosted
        if topic_partition in self._doomed:
            del self._doomed[topic_partition]
            self._log_manager.delete(topic_partition)
        try:
            partition_log = self._log_manager.get_or_create(
                topic_partition,
                topic_id,
                self._log_config(self._image(), topic_partition.topic),
                is_new=is_new,
            )
            partition = Partition(
                log=partition_log,
                topic_id=topic_id,
                assignment=assignment,
                context=self.context,
                counters=self.counters.setdefault(topic_partition.topic, TopicCounters()),
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
        self.on_role(partition)

    def _remove(self, topic_partition: TopicPartition) -> None:
        """The partition leaves this node, and its files go soon."""
        self._drop(topic_partition)
        self._doomed[topic_partition] = None

    def _drop(self, topic_partition: TopicPartition) -> Partition | None:
        self._offline.discard(topic_partition)
        self._take_unhosted(topic_partition)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            partition.close()
            self.on_dropped(topic_partition)
        return partition

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The disk of these partitions has failed."""
        for topic_partition in topic_partitions:
            self._drop(topic_partition)
            self._offline.add(topic_partition)

    # ---- among other brokers -----------------------------------------------------------------------

    def _is_alive(self, broker_id: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def _is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is not None and broker.is_active and broker_epoch in (-1, broker.broker_epoch)

    def _is_current(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is None or broker_epoch >= broker.broker_epoch

    def check_isrs(self) -> None:
        """Have replicas let into the ISRs that this node leads, or put out, where it is time."""
        self._check_isrs(self._partitions.values())

    async def check_isrs_in_turns(self) -> None:
        """Do what `check_isrs` does, some partitions in each turn of the loop."""
        left = iter(tuple(self._partitions.values()))
        while some := tuple(islice(left, CHECKED_AT_ONCE)):
            self._check_isrs(some)
            await asyncio.sleep(0)

    def _check_isrs(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            isr = partition.isr
            if isr is not None and isr.followers:
                partition.check_isr()

    def fence(self) -> None:
        """The controller has not heard of this node for a session: others may lead what it leads.

        It leads nothing until `unfence`, so it acknowledges nothing that nobody else has.
        """
        self._set_fenced(True)

    def unfence(self) -> None:
        """The controller has heard of this node: the metadata say what it leads."""
        self._set_fenced(False)

    def _set_fenced(self, is_fenced: bool) -> None:
        if self.context.is_fenced == is_fenced:
            return
        self.context.is_fenced = is_fenced
        for partition in self._partitions.values():
            if partition.assign(partition.assignment):
                self.on_role(partition)

    # ---- waiting requests ------------------------------------------------------------------------

    def delay_produce(
        self, places: Mapping[Partition, RequiredOffset], timeout_ms: int
    ) -> "asyncio.Future[Mapping[Partition, ErrorCode]]":
        """Wait until what each partition has before its place is safe, or `timeout_ms` are over."""
        return self._delay(PRODUCES, places, timeout_ms)

    def delay_fetch(self, min_bytes: int, max_wait_ms: int) -> "tuple[DelayedFetch, asyncio.Future[None]]":
        """A fetch that will wait for what it is made to watch, `max_wait_ms` at most."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)
                self.on_fetch_woken()

        delayed = DelayedFetch(min_bytes=min_bytes, wake=wake)
        self._keep(delayed, loop.call_later(max_wait_ms / 1000, delayed.finish), future)
        return delayed, future

    def delay_replica_fetch(
        self,
        session: FollowerSession,
        *,
        max_wait_ms: int,
        has_offsets: bool,
        is_enough: Callable[[], bool],
    ) -> "asyncio.Future[None]":
        """A follower's fetch that waits until `is_enough` after news; a moment only if it `has_offsets`."""
        loop = asyncio.get_running_loop()
        delayed, future = self.delay_fetch(1, max_wait_ms)
        soon: asyncio.TimerHandle | None = None

        def news(is_urgent: bool) -> None:
            nonlocal soon
            if is_urgent:
                if not delayed.is_done and is_enough():
                    delayed.finish()
            elif soon is None:
                soon = loop.call_later(OFFSET_NEWS_WAIT_S, delayed.finish)

        def forget(_: object) -> None:
            if session.on_news is news:
                session.on_news = None
            if soon is not None:
                soon.cancel()

        session.on_news = news
        future.add_done_callback(forget)
        if has_offsets:
            news(False)
        return future

    def delay_delete(
        self, places: Mapping[Partition, int], timeout_ms: int
    ) -> "asyncio.Future[Mapping[Partition, Deletion]]":
        """Wait until all living replicas of a partition start at its offset, or `timeout_ms` are over."""
        return self._delay(DELETES, places, timeout_ms)

    def _delay(
        self, kind: Kind[Any, G, R], goals: Mapping[Partition, G], timeout_ms: int
    ) -> "asyncio.Future[Mapping[Partition, R]]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Mapping[Partition, R]] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(delayed.results)

        delayed = DelayedOperation(kind, wake=wake)
        for partition, goal in goals.items():
            delayed.watch(partition, goal)
        self._keep(delayed, loop.call_later(max(0, timeout_ms) / 1000, delayed.expire), future)
        for partition in goals:
            delayed.check(partition)
        return future

    def _keep(
        self,
        delayed: DelayedFetch | DelayedOperation[Any, Any, Any],
        timer: asyncio.TimerHandle,
        future: "asyncio.Future[Any]",
    ) -> None:
        self._delayed[delayed] = None

        def forget(_: object) -> None:
            # Also when the connection is gone: its future is cancelled, and nobody waits any more.
            timer.cancel()
            if not delayed.is_done:
                delayed.cancel()
            self._delayed.pop(delayed, None)

        future.add_done_callback(forget)

    def waiting_counts(self) -> dict[str, int]:
        """How many requests wait, by kind."""
        fetches = sum(type(one) is DelayedFetch for one in self._delayed)
        produces = sum(type(one) is DelayedOperation and one.kind is PRODUCES for one in self._delayed)
        rest = len(self._delayed) - fetches - produces
        return {"Fetch": fetches, "Produce": produces, "DeleteRecords": rest}

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
