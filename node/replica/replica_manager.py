"""All partitions of this node, and the requests that wait for one of them to change.

The door between the pure replicas and the event loop: it creates the futures and timers of waiting produces
and fetches. The metadata publisher tells it which partitions to host, and in which role.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.counters.topic_counters import TopicCounters, without_topics
from ottla.node.replica.backlog import Backlog
from ottla.node.replica.delayed_delete import DELETES, Deletion
from ottla.node.replica.delayed_fetch import DelayedFetch
from ottla.node.replica.delayed_operation import DelayedOperation, Kind
from ottla.node.replica.delayed_produce import PRODUCES, RequiredOffset
from ottla.node.replica.fetch_session import DEFAULT_LIMIT_BYTES, FetchSessionCache
from ottla.node.replica.follower_session import FollowerSession, FollowerSessions
from ottla.node.replica.partition import Assignment, Partition
from ottla.node.replica.replica_context import ReplicaContext
from ottla.node.replica.replication_quota import ReplicationQuotas
from ottla.node.work.turns import give_way

# Kafka's default of max.incremental.fetch.session.cache.slots and min.incremental.fetch.session.eviction.ms.
DEFAULT_SESSION_SLOTS = 1000
DEFAULT_SESSION_EVICTION_MS = 120_000
# The time for which a new high watermark waits for records to be sent with. No acknowledgement waits for it,
# only readers of followers do; sent at once it would double the requests of a busy node.
OFFSET_CHANGE_WAIT_S = 0.005
DEFAULT_LAG_MS = 30_000  # of replica.lag.time.max.ms
# A new log costs some 1.5 ms of file operations. This many are created before a change of the metadata is
# answered, or between two turns of the loop; the rest of a large topic is created later, or when requested.
HOSTED_AT_ONCE = 4
# Renaming a log's directory takes some 0.2 ms, and ten times as long on a busy disk.
REMOVED_AT_ONCE = 8
# Checking a partition's ISR takes some 5 us; changing its role, or removing it, 5 to 10 us.
CHECKED_AT_ONCE = 512
SETTLED_AT_ONCE = 256
# Updating the settings of a topic takes some 50 us.
CONFIGURED_AT_ONCE = 32
# Of a partition and its log, as the garbage collector counts; some more are created during the removal.
OBJECTS_OF_A_PARTITION = 60

G = TypeVar("G")
R = TypeVar("R")

log = logging.getLogger(__name__)


class ReplicaManager:
    """The partitions that this node hosts, by name.

    A change of the metadata may affect very many of them, so it is carried out in turns with the event loop.
    A caller that looks a partition up by name always finds it as this node's metadata say: pending work on it
    is then done first. A caller that holds one for longer, such as a waiting fetch, learns of its new role
    some turns later.
    """

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
        on_freed: Callable[[int], None] = lambda objects: None,
        on_fetch_woken: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_placed` is called with a partition's log, or None if it is not known; `on_freed` with the
        number of objects that were freed; `on_fetch_woken` for each waiting fetch that is woken.

        `session_bytes` is the memory limit of fetch sessions; `is_open` returns True if the connection with a
        number is open. A node among others needs a clock that only goes forward, `replica.lag.time.max.ms`
        and its broker epoch.
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
        self._role_watchers: list[Callable[[Partition], None]] = []
        self._drop_watchers: list[Callable[[TopicPartition], None]] = []
        self._other_sessions_bytes: Callable[[], int] = lambda: 0
        self.on_fetch_woken = on_fetch_woken
        self.quotas = ReplicationQuotas(
            broker_id=broker_id, windows=quota_windows, window_seconds=quota_window_seconds
        )
        self._log_manager = log_manager
        self._image = image
        self._log_config = log_config
        self._on_placed = on_placed
        self._on_freed = on_freed
        self._partitions: dict[tuple[str, int], Partition] = {}
        # Of topics with a partition here, now or earlier, and of those that were deleted: DELETED_TOPICS.
        self.counters: dict[str, TopicCounters] = {}
        # Changes that `apply` leaves to later turns are carried out by the metadata applied last.
        self._applied = image()
        self._changed = Backlog()  # whose roles may have changed, or which may be gone
        self._unhosted = Backlog()  # whose logs are to be created or opened; those of new topics are marked
        self._unconfigured: dict[str, None] = {}  # topics whose logs may have changed settings
        self._unchecked: Iterator[Partition] = iter(())  # whose ISRs may take back a broker that came back
        self.is_behind = False  # true while any of the first three is not empty
        self._to_remove: dict[TopicPartition, None] = {}  # whose logs are to be removed
        self._has_unchecked = False
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
            others_bytes=lambda: self.follower_sessions.used_bytes + self._other_sessions_bytes(),
        )

    # ---- parts that are created later ------------------------------------------------------------

    def watch(
        self,
        on_role: Callable[[Partition], None],
        on_dropped: Callable[[TopicPartition], None] = lambda name: None,
    ) -> None:
        """Register callbacks for partitions with a new role or leader epoch, and for dropped ones.

        They are called in the order of their registration.
        """
        self._role_watchers.append(on_role)
        self._drop_watchers.append(on_dropped)

    def flush_by(self, flush_soon: Callable[[PartitionLog], None]) -> None:
        """Set the function by which partitions request a flush of their logs."""
        self.context.flush_soon = flush_soon

    @property
    def all_sessions_bytes(self) -> int:
        """Return the bytes that fetch sessions of clients, of followers and of share groups take."""
        return self.sessions.used_bytes + self.follower_sessions.used_bytes + self._other_sessions_bytes()

    def count_other_sessions(self, used_bytes: Callable[[], int]) -> None:
        """Count further sessions against the memory of fetch sessions."""
        self._other_sessions_bytes = used_bytes

    def _notify_role_watchers(self, partition: Partition) -> None:
        for watcher in self._role_watchers:
            watcher(partition)

    # ---- partitions ------------------------------------------------------------------------------

    def partition(self, topic_partition: tuple[str, int]) -> Partition:
        """Return the replica of a partition on this node.

        UNKNOWN_TOPIC_OR_PARTITION if the cluster has no such partition, NOT_LEADER_OR_FOLLOWER if other nodes
        have it, KAFKA_STORAGE_ERROR if its disk has failed.
        """
        partition = self.find(topic_partition) if self.is_behind else self._partitions.get(topic_partition)
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
        """Return the replica of a partition on this node, None if it hosts none."""
        if self.is_behind:
            self._catch_up(topic_partition)
        return self._partitions.get(topic_partition)

    def counters_of(self, topic: str) -> TopicCounters | None:
        """Return the counters of a topic, None if no partition of it is or was here."""
        return self.counters.get(topic)

    @property
    def offline_count(self) -> int:
        """Return the number of partitions that should be here and whose disk has failed."""
        return len(self._offline)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    # ---- changes by the metadata -----------------------------------------------------------------

    def apply(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Host, lead, follow and drop partitions as the new image says, and update their logs' settings.

        The first call, at start, brings all partitions. A log that cannot be opened does not hold up the
        others: its partition is offline. If very much changes, the first part is carried out at once, and the
        rest by `carry_out_the_rest`, or when a caller looks the partition up.
        """
        self._applied = image
        self.is_behind = True
        gone = {
            before.name
            for before, after in changes.topics
            if before is not None and (after is None or after.topic_id != before.topic_id)
        }
        if not gone.isdisjoint(self.counters):
            self.counters = without_topics(self.counters, gone)
        for before, after in changes.topics:
            self._note_topic(before, after)
        for kind, name in changes.configs:
            if kind == ConfigResourceType.TOPIC:
                self._unconfigured[name] = None
            elif kind == ConfigResourceType.BROKER:
                self._unconfigured.update(dict.fromkeys(image.topics.by_name))
        self._settle_some(SETTLED_AT_ONCE)
        self._remove_some(REMOVED_AT_ONCE)
        # At start all existing logs are open already: only roles are assigned.
        self._host_some(HOSTED_AT_ONCE if self._has_started else len(self._unhosted))
        self._has_started = True
        self._configure_some(CONFIGURED_AT_ONCE)
        if changes.brokers:  # a broker that came back may join ISRs again
            self._unchecked = iter(tuple(self._partitions.values()))
            self._check_some(CHECKED_AT_ONCE)
        self._update_is_behind()

    def _note_topic(self, before: TopicImage | None, after: TopicImage | None) -> None:
        """Note which partitions of a topic may have to change on this node."""
        is_new = before is None and self._has_started
        if before is not None and (after is None or after.topic_id != before.topic_id):
            self._unhosted.drop(before.name)  # they have no log yet
            every = range(len(before.partitions))
            self._changed.add(before.name, (one for one in every if self._has((before.name, one))))
            before = None
        if after is None:
            return
        old = () if before is None else before.partitions
        own = self._broker_id
        added = [one.partition for one in after.partitions[len(old) :] if own in one.replicas]
        self._unhosted.add(after.name, added, mark=is_new)
        self._changed.add(
            after.name,
            # An image that has not changed is the same object.
            (now.partition for then, now in zip(old, after.partitions, strict=False) if then is not now),
        )
        if self._offline:  # a disk may be back
            every = range(len(after.partitions))
            self._changed.add(after.name, (one for one in every if (after.name, one) in self._offline))

    def replace_log(self, topic_partition: TopicPartition, partition_log: PartitionLog) -> None:
        """Continue with a partition's log in another log directory."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            partition.replace_log(partition_log)
            self._on_placed(topic_partition, partition_log)

    def log_flushed(self, partition_log: PartitionLog) -> None:
        """Advance a partition: more of its log is flushed."""
        partition = self._partitions.get(partition_log.topic_partition)
        if partition is not None and partition.log is partition_log:
            partition.log_flushed()

    def update_config(self, image: MetadataImage, topic: str) -> None:
        """Apply changed settings of a topic (or of the broker below it) to its logs."""
        topic_image = image.topics.by_name.get(topic)
        if topic_image is None:
            return
        config = self._log_config(image, topic)
        for topic_partition in topic_image.topic_partitions():
            partition = self._partitions.get(topic_partition)
            if partition is not None and partition.log.config != config:
                partition.log.update_config(config)

    def _has(self, topic_partition: tuple[str, int]) -> bool:
        """Return True if a partition is here, or should be but its disk has failed."""
        return topic_partition in self._partitions or topic_partition in self._offline

    async def carry_out_the_rest(self) -> None:
        """Carry out in each turn of the loop some of what `apply` left, for as long as the node runs.

        Partitions that are still to be removed at the end are removed then.
        """
        try:
            while True:
                await self._has_rest.wait()
                self._settle_some(SETTLED_AT_ONCE)
                await give_way()
                if self._changed:
                    continue  # roles first: requests wait for the leaders
                self._host_some(HOSTED_AT_ONCE)
                await give_way()
                self._remove_some(REMOVED_AT_ONCE)
                await give_way()
                self._configure_some(CONFIGURED_AT_ONCE)
                self._check_some(CHECKED_AT_ONCE)
                self._update_is_behind()
                await give_way()
        finally:
            self._settle_some(len(self._changed))
            self._remove_some(len(self._to_remove))

    def _update_is_behind(self) -> None:
        self.is_behind = bool(self._changed or self._unhosted or self._unconfigured)
        if self.is_behind or self._to_remove or self._has_unchecked:
            self._has_rest.set()
        else:
            self._has_rest.clear()

    def _catch_up(self, topic_partition: tuple[str, int]) -> None:
        """Do the pending work on one partition, which a caller needs now."""
        topic = topic_partition[0]
        if topic in self._unconfigured:
            del self._unconfigured[topic]
            self.update_config(self._applied, topic)
        if self._changed.take(topic_partition) is not None:
            self._settle(TopicPartition(*topic_partition))
        is_new = self._unhosted.take(topic_partition)
        if is_new is not None:
            self._host(TopicPartition(*topic_partition), is_new=is_new)

    def _settle_some(self, count: int) -> None:
        while count > 0 and self._changed:
            topic, index, _ = self._changed.take_next()
            self._settle(TopicPartition(topic, index))
            count -= 1

    def _settle(self, topic_partition: TopicPartition) -> None:
        """Make a partition lead, follow or leave as the metadata say; a log that it lacks comes later."""
        topic = self._applied.topics.by_name.get(topic_partition.topic)
        one = None if topic is None else _partition_of(topic, topic_partition.partition)
        hosted = self._partitions.get(topic_partition)
        if topic is None or one is None or self._broker_id not in one.replicas:
            if self._has(topic_partition):
                self._remove(topic_partition)
            self._unhosted.take(topic_partition)
            return
        is_other = hosted is not None and hosted.topic_id != topic.topic_id
        if is_other:
            self._remove(topic_partition)
        if hosted is None or is_other:
            if topic_partition not in self._unhosted:
                self._unhosted.add(topic.name, (one.partition,), mark=is_other)
            return
        assignment = _assignment(one)
        leads = one.leader == self._broker_id and not self.context.is_fenced
        if (assignment != hosted.assignment or leads != hosted.is_leader) and hosted.assign(assignment):
            self._notify_role_watchers(hosted)

    def _configure_some(self, count: int) -> None:
        for topic in tuple(islice(self._unconfigured, count)):
            del self._unconfigured[topic]
            self.update_config(self._applied, topic)

    def _check_some(self, count: int) -> None:
        some = tuple(islice(self._unchecked, count))
        self._has_unchecked = len(some) == count
        self._check_isrs(one for one in some if self._partitions.get(one.topic_partition) is one)

    def _host_some(self, count: int) -> None:
        """Create up to `count` logs, from each topic in turn."""
        while count > 0 and self._unhosted:
            topic, index, is_new = self._unhosted.take_next()
            topic_partition = TopicPartition(topic, index)
            if self._changed.take(topic_partition) is not None:
                self._unhosted.add(topic, (index,), mark=is_new)
                self._settle(topic_partition)
                if self._unhosted.take(topic_partition) is None:
                    continue
            self._host(topic_partition, is_new=is_new)
            count -= 1

    def _remove_some(self, count: int) -> None:
        some = tuple(islice(self._to_remove, count))
        for topic_partition in some:
            del self._to_remove[topic_partition]
            self._log_manager.delete(topic_partition)
        if some:
            self._on_freed(OBJECTS_OF_A_PARTITION * len(some))

    def _host(self, topic_partition: TopicPartition, *, is_new: bool) -> None:
        """Open or create the partition's log and serve it; if that fails, the partition is offline."""
        topic = self._applied.topics.by_name[topic_partition.topic]
        if topic_partition in self._to_remove:
            del self._to_remove[topic_partition]
            self._log_manager.delete(topic_partition)
        try:
            partition_log = self._log_manager.get_or_create(
                topic_partition,
                topic.topic_id,
                self._log_config(self._applied, topic_partition.topic),
                is_new=is_new,
            )
            partition = Partition(
                log=partition_log,
                topic_id=topic.topic_id,
                assignment=_assignment(topic.partitions[topic_partition.partition]),
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
        self._notify_role_watchers(partition)

    def _remove(self, topic_partition: TopicPartition) -> None:
        """Remove a partition from this node; its files are deleted soon."""
        self._drop(topic_partition)
        self._to_remove[topic_partition] = None

    def _drop(self, topic_partition: TopicPartition) -> Partition | None:
        self._offline.discard(topic_partition)
        self._unhosted.take(topic_partition)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            partition.close()
            for watcher in self._drop_watchers:
                watcher(topic_partition)
        return partition

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Mark these partitions as offline: their disk has failed."""
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
        """Request due changes of the ISRs that this node leads."""
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
        """Stop leading until `unfence`: the controller has not heard of this node for a session.

        Other nodes may lead its partitions by now, so it must not acknowledge records that they do not have.
        That holds from this moment on, even though waiting requests of very many partitions are answered some
        turns later.
        """
        self._set_fenced(True)

    def unfence(self) -> None:
        """Lead again what the metadata say: the controller has heard of this node."""
        self._set_fenced(False)

    def _set_fenced(self, is_fenced: bool) -> None:
        if self.context.is_fenced == is_fenced:
            return
        self.context.is_fenced = is_fenced
        self.is_behind = True
        for topic, index in self._partitions:
            self._changed.add(topic, (index,))
        self._settle_some(SETTLED_AT_ONCE)
        self._update_is_behind()

    # ---- waiting requests ------------------------------------------------------------------------

    def delay_produce(
        self, required: Mapping[Partition, RequiredOffset], timeout_ms: int
    ) -> "asyncio.Future[Mapping[Partition, ErrorCode]]":
        """Wait until the records of each partition are safe up to its offset, or for `timeout_ms`."""
        return self._delay(PRODUCES, required, timeout_ms)

    def delay_fetch(self, min_bytes: int, max_wait_ms: int) -> "tuple[DelayedFetch, asyncio.Future[None]]":
        """Return a fetch that waits for the partitions that it will watch, for `max_wait_ms` at most."""
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
        """Return a future that is done when a follower's fetch, which waits in `session`, must be answered.

        That is when records, errors or a new role are to be sent and `is_enough` returns True; a moment
        (OFFSET_CHANGE_WAIT_S) after only offsets have changed, from now on if it `has_offsets` to send
        already; after `max_wait_ms` in any case.
        """
        loop = asyncio.get_running_loop()
        delayed, future = self.delay_fetch(1, max_wait_ms)
        soon: asyncio.TimerHandle | None = None

        def changed(is_urgent: bool) -> None:
            nonlocal soon
            if is_urgent:
                if not delayed.is_done and is_enough():
                    delayed.finish()
            elif soon is None:
                soon = loop.call_later(OFFSET_CHANGE_WAIT_S, delayed.finish)

        def forget(_: object) -> None:
            if session.on_change is changed:
                session.on_change = None
            if soon is not None:
                soon.cancel()

        session.on_change = changed
        future.add_done_callback(forget)
        if has_offsets:
            changed(False)
        return future

    def delay_delete(
        self, offsets: Mapping[Partition, int], timeout_ms: int
    ) -> "asyncio.Future[Mapping[Partition, Deletion]]":
        """Wait until all live replicas of each partition start at its offset, or for `timeout_ms`."""
        return self._delay(DELETES, offsets, timeout_ms)

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
            # Also if the connection is gone: its future is cancelled, and no client waits.
            timer.cancel()
            if not delayed.is_done:
                delayed.cancel()
            self._delayed.pop(delayed, None)

        future.add_done_callback(forget)

    def waiting_counts(self) -> dict[str, int]:
        """Return the number of waiting requests, by kind."""
        fetches = sum(type(one) is DelayedFetch for one in self._delayed)
        produces = sum(type(one) is DelayedOperation and one.kind is PRODUCES for one in self._delayed)
        rest = len(self._delayed) - fetches - produces
        return {"Fetch": fetches, "Produce": produces, "DeleteRecords": rest}

    def answer_waiting(self) -> None:
        """Answer all waiting requests with what there is, since the node stops."""
        for delayed in tuple(self._delayed):
            if isinstance(delayed, DelayedFetch):
                delayed.finish()
            else:
                delayed.expire()


def _partition_of(topic: TopicImage, index: int) -> PartitionImage | None:
    return topic.partitions[index] if index < len(topic.partitions) else None


def _assignment(image: PartitionImage) -> Assignment:
    return Assignment(
        leader_id=image.leader,
        leader_epoch=image.leader_epoch,
        partition_epoch=image.partition_epoch,
        replicas=image.replicas,
        in_sync_replicas=image.isr,
        adding_replicas=image.adding_replicas,
        eligible_replicas=image.eligible_leader_replicas,
    )
