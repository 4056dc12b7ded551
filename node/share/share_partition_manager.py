"""All share-partitions of this node, and the share sessions of members.

This is the door between the pure share-partitions and the event loop. It reads their state before the first
fetch, has acknowledgements written, ends locks in time, and drops a share-partition when this node no longer
leads it, when another leader has its state, or when the last member has left.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from ottla.groupcoord.share_state.share_state_words import (
    NOT_GIVEN,
    ReadState,
    SharePartitionKey,
    StateRead,
    StateResult,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.counters.share_counters import ShareCounters
from ottla.node.handing_over import InThread, StartTask
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.share.dead_letter_queue import DeadLetterQueue, DeadLetterWorld
from ottla.node.share.delayed_share_fetches import DelayedShareFetches
from ottla.node.share.led_partition import DELAYED_BYTES, LED_BYTES, LedPartition
from ottla.node.share.repeated_line import RepeatedLine
from ottla.node.share.share_fetch import FEW_DELAYED, PartitionResult, ShareFetch, ShareFetchParams
from ottla.node.share.share_group_settings import ShareGroupConfigs
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_sessions import SessionKey, ShareSession, ShareSessions, TopicIdPartition
from ottla.node.share.share_timers import ShareTimers
from ottla.node.share.share_words import (
    FENCED,
    AcknowledgementBatch,
    Outcome,
    ShareLimits,
    write_error,
)
from ottla.node.share.window_view import WindowView
from ottla.node.work.turns import give_way, take_turns

# Share-partitions that begin or end in one turn of the loop: some 60 us each.
MAX_BEGUN: Final = 256
# Acknowledgement types of one request in one turn, 20 us each; more are applied in several turns.
MAX_ACKNOWLEDGED: Final = 512
MAX_UNREADABLE: Final = 100  # partitions that have a log line a minute each; on a bad disk there are many
# Ranges of records that are released in the time that one share-partition takes.
RANGES_OF_ONE: Final = 8
# States restored in one turn with those of other share-partitions, some 2 us each.
MAX_RESTORED: Final = 256

log = logging.getLogger(__name__)


class InitialOffset(Protocol):
    """Finds the start offset of a group in a partition that it has not read."""

    async def __call__(self, partition: Partition, group: str, connection: ConnectionInfo, /) -> int: ...


class StatePersister(Protocol):
    """Reads and writes states of share-partitions; the results have the errors."""

    async def read(self, requests: Sequence[ReadState]) -> list[StateRead]: ...
    async def write(self, requests: Sequence[WriteState]) -> list[StateResult]: ...


class AcknowledgeResult(NamedTuple):
    """The result of an acknowledgement; its error is NONE if it was accepted."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


# The results of acknowledgements, some of which may be futures.
Answers: TypeAlias = "dict[TopicIdPartition, AcknowledgeResult | asyncio.Future[AcknowledgeResult]]"
ACCEPTED: Final = AcknowledgeResult()
_UNKNOWN: Final = AcknowledgeResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class SharePartitionManager:
    """The share-partitions and share sessions of a node. For the event loop only."""

    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        persister: StatePersister,
        settings: ShareGroupConfigs,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        initial_offset: InitialOffset,
        in_thread: InThread,
        start_task: StartTask,
        max_sessions: Callable[[], int],
        limit_bytes: int = 1 << 40,
        on_woken: Callable[[], None] = lambda: None,
        is_open: Callable[[int], bool] = lambda number: True,
        dead_letters: DeadLetterWorld | None = None,
    ) -> None:
        """`now_ms` is the clock for the ends of locks, which only goes forward; `wall_ms` is the clock for
        due times, which may be set. `limit_bytes` is the memory for sessions, and as much again for
        share-partitions. `on_woken` is called after each fetch that has waited; `is_open` returns True if the
        connection of this number is open.
        """
        self._replicas = replicas
        self._persister = persister
        self._settings = settings
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._initial_offset = initial_offset
        self._start_task = start_task
        self._limit_bytes = limit_bytes
        self._is_open = is_open
        self._timers = ShareTimers(now_ms, wall_ms, self.expire)
        self._led: dict[SharePartitionKey, LedPartition] = {}
        self._of_partition: dict[TopicPartition, set[SharePartitionKey]] = {}
        self._of_group: dict[str, set[SharePartitionKey]] = {}
        self._restoring = asyncio.Lock()  # a partition with very many states has a turn of its own
        self._led_bytes = 0  # an estimate for all share-partitions
        self._delayed_count = 0  # their records that are not due yet
        self._is_closed = False
        self._unreadable: OrderedDict[TopicPartition, RepeatedLine] = OrderedDict()
        self.sessions = ShareSessions(max_sessions=max_sessions, limit_bytes=limit_bytes)
        self.counters = ShareCounters()
        self._delayed = DelayedShareFetches(
            attempt=self._attempt,
            complete=self._complete,
            is_current=self._is_current,
            in_thread=in_thread,
            start_task=start_task,
            on_woken=on_woken,
            counters=self.counters,
        )
        self._dead_letters = (
            None
            if dead_letters is None
            else DeadLetterQueue(
                world=dead_letters,
                persister=persister,
                settings=lambda group: settings(group).dead_letters,
                counters=self.counters,
                changed=self._letters_written,
                fenced=self._drop,
            )
        )
        self._follow_roles()

    # ---- properties --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._led)

    @property
    def share_partitions(self) -> Mapping[SharePartitionKey, LedPartition]:
        """The share-partitions in use."""
        return self._led

    @property
    def waiting_count(self) -> int:
        """The number of share fetches that wait."""
        return len(self._delayed)

    @property
    def used_bytes(self) -> int:
        """An estimate of the bytes that sessions and share-partitions use."""
        return self.sessions.used_bytes + self._led_bytes

    def view(self, key: SharePartitionKey, max_ranges: int) -> WindowView | None:
        """Return a view of a share-partition's records in flight, with up to `max_ranges` in each list.

        Return None if no member reads it here, or if its state is not read yet.
        """
        led = self._led.get(key)
        if led is None or not led.core.is_active:
            return None
        now_ms = self._now_ms()
        view = led.core.view(now_ms=now_ms, max_ranges=max_ranges, stalled_ms=led.stalled_ms(now_ms))
        return view._replace(letter_failure=int(led.letter_failure))

    def stalled_ms(self, led: LedPartition) -> int:
        """Return the time for which the oldest record in flight of a share-partition has been the same."""
        return led.stalled_ms(self._now_ms())

    def record_lock_duration_ms(self, group: str) -> int:
        """Return the duration of the locks that a member of the group acquires now."""
        return self._settings(group).config.record_lock_duration_ms

    # ---- fetches -----------------------------------------------------------------------------------------

    def fetch(
        self,
        params: ShareFetchParams,
        wanted: Mapping[TopicIdPartition, str],
        results: dict[TopicIdPartition, PartitionResult],
    ) -> "ShareFetch | asyncio.Future[ShareFetch]":
        """Acquire records of these partitions, or wait if there are too few.

        `wanted` has the names of their topics, and `results` the results of other partitions. Return the
        fetch with all results, or a future of it.
        """
        led: dict[TopicIdPartition, LedPartition] = {}
        settings = self._settings(params.key.group)
        fetch = ShareFetch(params, settings.isolation, led, results)
        if not wanted or params.max_records <= 0 or params.max_bytes <= 0 or self._is_closed:
            return fetch
        begun, now_ms = 0, self._now_ms()
        for topic_id_partition, topic in wanted.items():
            key = SharePartitionKey(
                params.key.group, topic_id_partition.topic_id, topic_id_partition.partition
            )
            one = self._find_for(key, params.session, settings.config.record_lock_duration_ms)
            if one is None and begun == MAX_BEGUN:
                continue  # the next fetches begin the others
            try:
                if one is None:
                    begun += 1
                    one = self._lead(key, topic, params.connection)
            except KafkaError as error:
                results[topic_id_partition] = PartitionResult(error=error.code, topic=topic)
                continue
            led[topic_id_partition] = one
            one.core.config = settings.config
            one.used_ms = now_ms
        self._count_fetches(wanted.values())
        if not led:
            return self._complete(fetch)
        return self._serve(fetch)

    def _serve(self, fetch: ShareFetch) -> "ShareFetch | asyncio.Future[ShareFetch]":
        if self._attempt(fetch, is_last=fetch.params.max_wait_ms <= 0):
            return self._complete(fetch)
        return self._delayed.wait(fetch)

    def _is_current(self, fetch: ShareFetch) -> bool:
        """Return True if the session of the fetch is still that of its member."""
        return self.sessions.find(fetch.params.key) is fetch.params.session

    def _attempt(self, fetch: ShareFetch, *, is_last: bool) -> bool:
        """Acquire available records; return True if the fetch need not wait any longer."""
        fetch.is_skipping |= fetch.has_skipped_all
        fetch.has_skipped_all = False
        fetch.is_short_of_memory = self._led_bytes > self._limit_bytes
        # One half is reserved for the states of records, however many records wait for days.
        left_bytes = self._limit_bytes // 2 - self._delayed_count * DELAYED_BYTES
        fetch.is_short_of_delay_memory = fetch.is_short_of_memory or left_bytes < 0
        fetch.max_new_delayed = max(left_bytes // DELAYED_BYTES, FEW_DELAYED)
        located = fetch.locate()
        self._follow_changes(fetch)
        if fetch.cold or not (is_last or fetch.is_enough(located)):
            return False
        fetch.read(located, self._wall_ms())
        if fetch.cold:
            return False
        for led in fetch.acquire(located, self._now_ms()):
            self._schedule(led)
        for led in fetch.led.values():
            if led.failure is not None and not led.is_gone:
                self._drop_failed(led, led.failure)
        return is_last or not fetch.has_skipped_all

    def _follow_changes(self, fetch: ShareFetch) -> None:
        """Set the timers of share-partitions whose log has changed, and wake other fetches of these."""
        loop = asyncio.get_running_loop()
        for led in fetch.changed:
            self._schedule(led)
            loop.call_soon(led.check_waiting)
        fetch.changed.clear()

    def _complete(self, fetch: ShareFetch) -> ShareFetch:
        """Complete the results: add partitions without records, and the errors of those that are gone."""
        for led, failure in fetch.unreadable:
            self._log_unreadable(led, failure)
        fetch.unreadable.clear()
        for topic_id_partition, led in fetch.led.items():
            if topic_id_partition in fetch.results:
                continue
            error = fetch.refusal_of(led)
            if not error and led.failure is not None:
                error = led.failure.code
            elif not error and led.is_gone and not led.partition.is_leader:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if error or led.may_acquire(fetch):
                fetch.results[topic_id_partition] = PartitionResult(
                    error=error, topic=led.partition.topic_partition.topic
                )
        for topic in {one.topic for one in fetch.results.values() if one.error is not ErrorCode.NONE}:
            counters = self._replicas.counters_of(topic)
            if counters is not None:
                counters.failed_share_fetch_requests += 1
        return fetch

    def _count_fetches(self, topics: Iterable[str]) -> None:
        for topic in set(topics):
            counters = self._replicas.counters_of(topic)
            if counters is not None:
                counters.total_share_fetch_requests += 1

    # ---- leading -----------------------------------------------------------------------------------------

    def _find(self, key: SharePartitionKey) -> LedPartition | None:
        """Return a share-partition in use, None if there is none that this node still leads."""
        led = self._led.get(key)
        if led is None or led.still_leads():
            return led
        self._drop(led)
        return None

    def _find_for(
        self, key: SharePartitionKey, session: ShareSession | None, lock_duration_ms: int
    ) -> LedPartition | None:
        """Return a share-partition in use, None if there is none.

        A share-partition that all members had left before the session began is dropped, since the group may
        have another incarnation of its state. For others the state is checked in the background: all members
        may have left and come back, while the session of a crashed member remains.
        """
        led = self._find(key)
        if led is None or session is None:
            return led
        if led.is_left(session.begun_ms - lock_duration_ms):
            self._drop(led)
            return None
        if led.checked_ms < session.begun_ms and not led.is_checking and led.core.is_active:
            led.is_checking = True
            self._start_task(self._check_state(led))
        return led

    async def _check_state(self, led: LedPartition) -> None:
        """Drop a share-partition whose state was initialized again since it was read."""
        core, checked_ms = led.core, self._now_ms()
        try:
            read = (await self._persister.read([ReadState(core.key, core.leader_epoch)]))[0]
        except KafkaError:
            return  # the next session checks again
        finally:
            led.is_checking = False
        if led.is_gone or read.error is not ErrorCode.NONE:
            return
        led.checked_ms = checked_ms
        if (read.state_epoch, read.incarnation) != (core.state_epoch, core.incarnation):
            log.debug("The state of %s was initialized again.", core.key.coordinator_key)
            self._drop(led)

    def _lead(self, key: SharePartitionKey, topic: str, connection: ConnectionInfo) -> LedPartition:
        """Begin a share-partition, whose state is read in the background."""
        partition = self._replicas.partition((topic, key.partition))
        partition.check_leader()
        if partition.topic_id != key.topic_id:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._led_bytes + LED_BYTES > self._limit_bytes:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "There is no memory for more share-partitions.")
        config = self._settings(key.group).config
        core = SharePartition(key, partition.leader_epoch, config, ShareLimits())
        led = LedPartition(core, partition, connection, self._now_ms())
        self._led[key] = led
        self._count_bytes(led)
        self._of_partition.setdefault(partition.topic_partition, set()).add(key)
        self._of_group.setdefault(key.group, set()).add(key)
        self._start_task(self._load(led, connection))
        return led

    async def _load(self, led: LedPartition, connection: ConnectionInfo) -> None:
        """Read the state of a share-partition, for which its first fetches wait."""
        began_s = asyncio.get_running_loop().time()
        core = led.core
        try:
            read = (await self._persister.read([ReadState(core.key, core.leader_epoch)]))[0]
            initial = 0
            if read.error is ErrorCode.NONE and read.start_offset == NOT_GIVEN:
                initial = await self._initial_offset(led.partition, core.key.group, connection)
            async with self._restoring:
                if len(read.batches) > MAX_RESTORED:
                    await give_way()
                if led.is_gone:
                    return
                core.restore(read, initial)
        except KafkaError as error:
            log.debug("The state of %s could not be read: %s", core.key.coordinator_key, error)
            led.failure = error
            if not led.is_gone:
                self._drop(led, wakes=False)
            return
        self.counters.load_times.observe(asyncio.get_running_loop().time() - began_s)
        self._schedule(led)
        self._send_letters(led)
        led.check_waiting()

    def _drop(self, led: LedPartition, *, wakes: bool = True) -> None:
        """Stop using a share-partition.

        If it `wakes` the fetches that wait for it, they are answered, or wait for their other partitions.
        """
        if led.is_gone:
            return
        led.is_gone = True
        self._led_bytes -= led.counted_bytes
        self._delayed_count -= led.counted_delayed
        led.core.fence()
        key, name = led.core.key, led.partition.topic_partition
        del self._led[key]
        self._of_partition[name].discard(key)
        if not self._of_partition[name]:
            del self._of_partition[name]
        self._of_group[key.group].discard(key)
        if not self._of_group[key.group]:
            del self._of_group[key.group]
        self._timers.cancel(key)
        if wakes:
            led.wake_all()

    def _drop_failed(self, led: LedPartition, failure: KafkaError) -> None:
        """Drop a share-partition whose records could not be acquired: its state may be changed in part."""
        self._log_unreadable(led, failure)
        self._drop(led)

    def _log_unreadable(self, led: LedPartition, failure: KafkaError) -> None:
        name = led.partition.topic_partition
        line = self._unreadable.setdefault(name, RepeatedLine())
        self._unreadable.move_to_end(name)
        if len(self._unreadable) > MAX_UNREADABLE:
            self._unreadable.popitem(last=False)
        line.log(
            log,
            self._now_ms(),
            "Records of %s cannot be delivered: %s: %s",
            *(led.core.key.coordinator_key[-150:], failure.code.name, failure.detail[:500]),
        )

    def _drop_all(self, keys: Iterable[SharePartitionKey]) -> None:
        for key in list(keys):
            self._drop(self._led[key])

    def _follow_roles(self) -> None:
        """Drop share-partitions as soon as this node no longer leads their partition."""

        def on_role(partition: Partition) -> None:
            for key in list(self._of_partition.get(partition.topic_partition, ())):
                led = self._led[key]
                if led.partition is not partition or not led.still_leads():
                    self._drop(led)

        def on_dropped(name: TopicPartition) -> None:
            self._drop_all(self._of_partition.get(name, ()))

        self._replicas.watch(on_role, on_dropped)

    # ---- acknowledgements --------------------------------------------------------------------------------

    def acknowledge(
        self, key: SessionKey, batches: Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]]
    ) -> "Answers":
        """Apply a member's acknowledgements of records.

        The results of partitions whose state must be written first are futures.
        """
        config = self._settings(key.group).config
        answers: Answers = {}
        topics: set[str] = set()
        large: dict[TopicIdPartition, Sequence[AcknowledgementBatch]] = {}
        is_large = sum(len(one.types) for ranges in batches.values() for one in ranges) > MAX_ACKNOWLEDGED
        for topic_id_partition, ranges in batches.items():
            led = self._led.get(
                SharePartitionKey(key.group, topic_id_partition.topic_id, topic_id_partition.partition)
            )
            if led is None:
                answers[topic_id_partition] = _UNKNOWN
                continue
            topics.add(led.partition.topic_partition.topic)
            led.core.config = config
            led.used_ms = self._now_ms()
            if is_large:
                large[topic_id_partition] = ranges
                answers[topic_id_partition] = asyncio.get_running_loop().create_future()
                continue
            answers[topic_id_partition] = self._finish_acknowledgement(
                led, ranges, led.core.acknowledge(key.member, ranges, self._now_ms())
            )
        if large:
            self._start_task(self._acknowledge_in_turns(key, large, dict(answers)))
        for topic in topics:
            counters = self._replicas.counters_of(topic)
            if counters is not None:
                counters.total_share_acknowledge_requests += 1
        return answers

    async def _acknowledge_in_turns(
        self,
        key: SessionKey,
        batches: Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]],
        answers: "Answers",
    ) -> None:
        """Apply acknowledgements of very many records, some in each turn of the loop."""
        for topic_id_partition, ranges in batches.items():
            answer = answers[topic_id_partition]
            assert isinstance(answer, asyncio.Future)
            led = self._led.get(
                SharePartitionKey(key.group, topic_id_partition.topic_id, topic_id_partition.partition)
            )
            if led is None:
                _give(answer, _UNKNOWN)
                continue
            outcome = await take_turns(led.core.acknowledge_in_steps(key.member, ranges, self._now_ms()))
            if led.is_gone:
                _give(answer, AcknowledgeResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
                continue
            taken = self._finish_acknowledgement(led, ranges, outcome)
            if isinstance(taken, AcknowledgeResult):
                self._schedule(led)  # a lock may have ended between two steps
                _give(answer, taken)
            else:
                taken.add_done_callback(partial(_pass_on, answer))

    def _finish_acknowledgement(
        self, led: LedPartition, ranges: Sequence[AcknowledgementBatch], outcome: Outcome
    ) -> "AcknowledgeResult | asyncio.Future[AcknowledgeResult]":
        """Count an acknowledgement and write its outcome; return its result, or a future of it."""
        if outcome.error is not ErrorCode.NONE:
            return AcknowledgeResult(outcome.error, outcome.message)
        self._count_acknowledged(ranges)
        return self._write(led, outcome)

    def count_failed(self, topics: Iterable[str]) -> None:
        """Count a request whose acknowledgements of these topics failed."""
        for topic in set(topics):
            counters = self._replicas.counters_of(topic)
            if counters is not None:
                counters.failed_share_acknowledge_requests += 1

    def _count_acknowledged(self, batches: Sequence[AcknowledgementBatch]) -> None:
        counts = self.counters.acknowledged
        for first, last, types in batches:
            if len(types) == 1:
                counts[types[0]] += last - first + 1
            else:
                for kind in range(len(counts)):
                    counts[kind] += types.count(kind)

    def _write(
        self, led: LedPartition, outcome: Outcome
    ) -> "AcknowledgeResult | asyncio.Future[AcknowledgeResult]":
        """Write the state of an outcome.

        Return ACCEPTED if there is none to write, otherwise a future of the result.
        """
        self._schedule(led)
        led.check_waiting()
        if outcome.write is None or self._is_closed:
            return (
                ACCEPTED if outcome.write is None else AcknowledgeResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            )
        # A future of its own: a client that disconnects cancels it, and not the write.
        written: asyncio.Future[AcknowledgeResult] = asyncio.get_running_loop().create_future()
        self._start_task(self._persist(led, outcome, written))
        return written

    async def _persist(
        self, led: LedPartition, outcome: Outcome, written: "asyncio.Future[AcknowledgeResult]"
    ) -> None:
        assert outcome.write is not None and outcome.transition is not None
        result = (await self._persister.write([outcome.write]))[0]
        answer = ACCEPTED
        if result.error is ErrorCode.NONE:
            is_more = led.core.persisted(outcome.transition, self._now_ms())
        else:
            is_more = led.core.failed(outcome.transition)
            answer = AcknowledgeResult(*write_error(result))
            if answer.error in FENCED and not led.is_gone:
                log.debug("%s is fenced: %s", led.core.key.coordinator_key, answer.message)
                self._drop(led)
        if not led.is_gone:
            self._schedule(led)
            self._send_letters(led)
            if is_more:
                led.check_waiting()
        if not written.done():
            written.set_result(answer)
        if not led.is_gone and not self.sessions.has_group(led.core.key.group):
            self._drop_unused(led.core.key.group)  # it may have been kept for its dead letters

    # ---- dead letters ------------------------------------------------------------------------------------

    def _send_letters(self, led: LedPartition) -> None:
        """Start to write the dead letters of a share-partition, if there are any."""
        if self._dead_letters is None or self._is_closed or led.is_gone or led.is_sending_letters:
            return
        if led.core.is_active and led.core.may_send_letters:
            led.is_sending_letters = True
            self._start_task(self._write_letters(self._dead_letters, led))

    async def _write_letters(self, queue: DeadLetterQueue, led: LedPartition) -> None:
        try:
            await queue.write_all(led)
        finally:
            led.is_sending_letters = False
        self._send_letters(led)  # for records set aside meanwhile
        if not led.is_gone and not self._is_closed:
            self._drop_unused(led.core.key.group)

    def _letters_written(self, led: LedPartition) -> None:
        """Wake fetches after records were archived, since there may be room for others."""
        if not led.is_gone:
            self._schedule(led)
            led.check_waiting()

    # ---- sessions ----------------------------------------------------------------------------------------

    def begin_session(
        self, key: SessionKey, partitions: Iterable[tuple[TopicIdPartition, str | None]], connection: int
    ) -> ShareSession:
        """Begin a session. An earlier session of the member ends, and the member keeps the records it holds.

        Raises KafkaError with SHARE_SESSION_LIMIT_REACHED if there are too many.
        """
        is_first = not self.sessions.has_group(key.group)
        self.sessions.remove(key)
        self._delayed.wake(key)
        if not self._is_open(connection):  # nothing would end the session
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if is_first:
            self._read_again(key.group)
        return self.sessions.create(key, partitions, connection, self._now_ms())

    def _read_again(self, group: str) -> None:
        """Read the state of share-partitions again that were kept for their dead letters.

        The group that begins may have another incarnation of the state. Dead letters of partitions that it
        does not read must be written, too.
        """
        for key in list(self._of_group.get(group, ())):
            kept = self._led[key]
            self._drop(kept)
            with suppress(KafkaError):
                self._lead(key, kept.partition.topic_partition.topic, kept.connection)

    def end_session(self, key: SessionKey) -> ShareSession | None:
        """End a session, if there is one, and release the records that its member holds."""
        session = self.sessions.remove(key)
        if session is None:
            return None
        self._delayed.wake(key)
        left = self._give_back(key, list(session.partitions))
        if left and not self._is_closed:
            self._start_task(self._give_back_rest(key, left))
        else:
            self._drop_unused(key.group)
        return session

    def _give_back(
        self, key: SessionKey, partitions: Sequence[TopicIdPartition]
    ) -> Sequence[TopicIdPartition]:
        """Release a member's records in some partitions; return the partitions left for another turn."""
        cost = 0
        for count, one in enumerate(partitions):
            if cost >= MAX_BEGUN and not self._is_closed:
                return partitions[count:]
            cost += self._cost_of_giving_back(key, one)
            led = self._led.get(SharePartitionKey(key.group, one.topic_id, one.partition))
            if led is not None and led.core.is_active:
                self._write(led, led.core.release_all(key.member))
        return ()

    def _cost_of_giving_back(self, key: SessionKey, partition: TopicIdPartition) -> int:
        """Return the cost of releasing a member's records; a whole turn has `MAX_BEGUN`."""
        led = self._led.get(SharePartitionKey(key.group, partition.topic_id, partition.partition))
        if led is None or not led.core.may_hold(key.member):
            return 1
        return 1 + led.core.in_flight_range_count // RANGES_OF_ONE

    async def _give_back_rest(self, key: SessionKey, partitions: Sequence[TopicIdPartition]) -> None:
        """Release a member's records in very many partitions, some in each turn of the loop."""
        while partitions:
            await give_way()
            if self.sessions.find(key) is not None:
                return  # the member has a new session, and keeps the records it holds
            partitions = self._give_back(key, partitions)
        self._drop_unused(key.group)

    def _drop_unused(self, group: str) -> None:
        """Drop the share-partitions of a group if none of its members has a session here.

        Share-partitions that have dead letters to write are dropped after that.
        """
        if not self.sessions.has_group(group):
            led = (self._led[key] for key in self._of_group.get(group, ()))
            self._drop_all([one.core.key for one in led if not one.is_awaiting_letters])

    def connection_closed(self, number: int) -> None:
        """End the sessions that began over this connection."""
        left = self.sessions.of_connection(number)
        self.sessions.evictions += len(left)
        ended = 0
        while left and (ended < MAX_BEGUN or self._is_closed):
            session = left.pop()
            ended += 1 + sum(self._cost_of_giving_back(session.key, one) for one in session.partitions)
            self.end_session(session.key)
        if left:
            self._start_task(self._end_rest(left))

    async def _end_rest(self, sessions: Sequence[ShareSession]) -> None:
        """End very many sessions, one in each turn of the loop."""
        for session in sessions:
            await give_way()
            if self.sessions.find(session.key) is session:
                self.end_session(session.key)

    def pause(self, milliseconds: int) -> "asyncio.Future[None]":
        """Return a future that is done after this time.

        Without such a wait a member whose session was rejected would retry at once.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(max(0, milliseconds) / 1000, _settle, future)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    # ---- locks -------------------------------------------------------------------------------------------

    def _schedule(self, led: LedPartition) -> None:
        """Set the timer of a share-partition again, and count its memory, after any change of it."""
        self._count_bytes(led)
        led.note_oldest(self._now_ms())
        if not led.is_gone and not self._is_closed:
            self._timers.start(led.core)

    def _count_bytes(self, led: LedPartition) -> None:
        if not led.is_gone:
            used_bytes = led.used_bytes
            self._led_bytes += used_bytes - led.counted_bytes
            led.counted_bytes = used_bytes
            self._delayed_count += led.core.delayed_count - led.counted_delayed
            led.counted_delayed = led.core.delayed_count

    def expire(self, key: SharePartitionKey) -> None:
        """Free the records of a share-partition whose lock or wait has ended."""
        led = self._led.get(key)
        if led is None:
            return
        led.core.free_due(self._wall_ms())
        outcome = led.core.expire(self._now_ms())
        if outcome.write is not None:
            count = sum(one.last_offset - one.first_offset + 1 for one in outcome.write.batches)
            led.lock_timeouts += count
            self.counters.lock_timeouts += count
        self._write(led, outcome)
        self._send_letters(led)

    # ---- the end -------------------------------------------------------------------------------------------

    def disable(self) -> None:
        """Drop all sessions and share-partitions: `share.version` is 0, so there are no share groups."""
        self.sessions.clear()
        self._drop_all(self._led)

    def close(self) -> None:
        """Answer waiting fetches, and stop."""
        self._is_closed = True
        self._delayed.close()
        self._timers.close()


def _give(answer: "asyncio.Future[AcknowledgeResult]", result: AcknowledgeResult) -> None:
    if not answer.done():  # it is cancelled if the client has disconnected
        answer.set_result(result)


def _pass_on(
    answer: "asyncio.Future[AcknowledgeResult]", written: "asyncio.Future[AcknowledgeResult]"
) -> None:
    if written.cancelled():
        answer.cancel()
    else:
        _give(answer, written.result())


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def results_if_done(answers: Answers) -> dict[TopicIdPartition, AcknowledgeResult] | None:
    """Return the results, None while some are futures."""
    done = {key: one for key, one in answers.items() if isinstance(one, AcknowledgeResult)}
    return done if len(done) == len(answers) else None


async def await_results(answers: Answers) -> dict[TopicIdPartition, AcknowledgeResult]:
    """Wait for all results and return them."""
    return {key: one if isinstance(one, AcknowledgeResult) else await one for key, one in answers.items()}
