"""The work on the logs that no request asks for: retention, flush, checkpoints, removal, cleaning, moves.

One task per kind, each on the event loop; what may wait for a disk is done in threads on things that do not
change any more, and its result is taken in on the loop. A log whose disk fails takes its directory offline,
and the task goes on to the next log; when the last directory is gone, the node ends.
"""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from ottla.logstore.checkpoint import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from ottla.logstore.cleaner import (
    CleanedGroup,
    CleaningAborted,
    CleaningJob,
    clean_group,
    groups_to_clean,
    index_dirty,
)
from ottla.logstore.cleaner_manager import CleanerManager
from ottla.logstore.cleaning_costs import ROUND_CPU_S
from ottla.logstore.log_manager import LogManager
from ottla.logstore.log_mover import is_durable, next_step
from ottla.logstore.offset_map import OffsetMap
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.producer_tally import SilentProducers
from ottla.logstore.retention import SegmentSpan, is_flush_due, retention_plan
from ottla.logstore.segment import Segment
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.raft_check import MetadataDamage
from ottla.node.clock import Clock
from ottla.node.log_care.damaged_replicas import DamagedReplicas
from ottla.node.log_care.log_flusher import LogFlusher
from ottla.node.log_care.log_scrub import LogScrub
from ottla.node.log_care.segment_repair import SegmentRepair
from ottla.node.settings.config import BrokerConfig

UPKEEP_INTERVAL_MS: Final = 1_000  # rolled segments are flushed and old files removed this often
MAX_PACE_S: Final = 1.0
MOVE_INTERVAL_MS: Final = 200  # how often it is looked how far the copy of a log is that is moved
FIRST_MOVE_INTERVAL_MS: Final = 1_000  # how often it is looked whether a log is to be moved
MAX_SLEEP_MS: Final = 3_600_000  # an interval that was made shorter holds after this time at the latest
# Logs that are looked at between two turns of the loop.
LOGS_PER_TURN: Final = 50
LOOKED_AT_PER_TURN: Final = 512  # some 2 us each
# How long the interpreter lets the cleaner's thread run before the loop gets its turn; Python's own 5 ms
# would be added to each request while a log is cleaned.
SWITCH_INTERVAL_SECONDS: Final = 0.0005
PRODUCER_MEMORY_CHECK_SECONDS: Final = 1.0
# A producer gives a batch up after delivery.timeout.ms, two minutes: until then it may send it again.
MIN_SILENCE_MS: Final = 120_000
MAX_CLEANERS: Final = 32  # They share one interpreter; more would only divide the memory for keys.
CLEANER_CHECK_SECONDS: Final = 1.0  # how soon a changed log.cleaner.threads or .backoff.ms holds
# To look through all logs without a pause would leave the loop no time for anything else.
MIN_BACKOFF_SECONDS: Final = 0.01
MAX_THROTTLE_STEP_SECONDS: Final = 0.1  # how soon a changed rate, or the node's end, is noticed
MIN_CLEANER_BYTES_PER_SECOND: Final = 1.0  # A rate of 0 or less stands still all the same.

T = TypeVar("T")
IsOver = Callable[[], bool]


class Throttle:
    """Bytes a second, for all threads that share it: `wait` sleeps, raises CleaningAborted after `stop`.

    The rate is asked for again and again, so that another one holds at once, also for those that wait.
    """

    __slots__ = ("_bytes_per_second", "_debt_bytes", "_is_stopped", "_lock", "_paid_at")

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._debt_bytes = 0.0
        self._paid_at = time.monotonic()
        self._is_stopped = False
        self._lock = threading.Lock()

    def wait(self, size: int) -> None:
        """Account for `size` bytes and sleep until they were allowed."""
        while (pause := self._seconds_to_wait(size)) > 0.001 and not self._is_stopped:
            time.sleep(min(pause, MAX_THROTTLE_STEP_SECONDS))
            size = 0
        if self._is_stopped:
            raise CleaningAborted("the node is stopping")

    def _seconds_to_wait(self, size: int) -> float:
        rate = max(self._bytes_per_second(), MIN_CLEANER_BYTES_PER_SECOND)
        with self._lock:
            now = time.monotonic()
            # Nothing is saved up over a pause, so that a burst never exceeds the rate.
            self._debt_bytes = max(0.0, self._debt_bytes - (now - self._paid_at) * rate) + size
            self._paid_at = now
            return self._debt_bytes / rate

    def stop(self) -> None:
        """Let nobody wait any more."""
        self._is_stopped = True


class LogMaintenance:
    """The tasks of one node. `run` is cancelled to end them."""

    def __init__(
        self,
        *,
        log_manager: LogManager,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        on_moved: Callable[[TopicPartition, PartitionLog], None],
        on_flushed: Callable[[PartitionLog], None],
        on_notes: Callable[[], None],
        repair: SegmentRepair,
        replicas: DamagedReplicas,
        metadata_damage: Callable[[], Iterable[MetadataDamage]] = lambda: (),
        key_bytes: Callable[[], int] | None = None,
    ) -> None:
        """`on_moved` is told of a log that takes another's place, `on_flushed` of one of which more is on the
        disk, `on_notes` that there may be notes. `repair`, `replicas` and
        `metadata_damage` are those of the scrub. `key_bytes` is the memory for the keys of all cleaners,
        `log.cleaner.dedupe.buffer.size` unless given.
        """
        self.cleaner = CleanerManager(log_manager)
        self._log_manager = log_manager
        self._config = config
        self._clock = clock
        self._on_moved = on_moved
        self._on_notes = on_notes
        self._key_bytes = key_bytes or (lambda: config().log_cleaner_dedupe_buffer_size)
        self.used_key_bytes = 0  # at most, of the logs that are compacted now
        self.cleaners: set[int] = set()  # by number, those that run
        self.flusher = LogFlusher(is_current=self._is_current, clock=clock, on_flushed=on_flushed)
        self.scrub = LogScrub(
            log_manager=log_manager,
            config=config,
            clock=clock,
            repair=repair,
            replicas=replicas,
            metadata_damage=metadata_damage,
        )
        self._throttle = Throttle(lambda: config().log_cleaner_io_max_bytes_per_second)

    async def run(self) -> None:
        """Work until cancelled; KAFKA_STORAGE_ERROR when no log directory is left."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._every(lambda _: UPKEEP_INTERVAL_MS, self.upkeep))
                tasks.create_task(self._every(self._move_interval_ms, self.move_logs))
                tasks.create_task(
                    self._every(
                        lambda config: config.log_retention_check_interval_ms,
                        self.apply_retention,
                        first_ms=self._config().log_initial_task_delay_ms,
                    )
                )
                tasks.create_task(self._every(_flush_interval_ms, self.flush_due_logs))
                tasks.create_task(self.flusher.run())
                tasks.create_task(self.scrub.run())
                tasks.create_task(
                    self._every(
                        lambda config: config.replica_high_watermark_checkpoint_interval_ms,
                        lambda: self.checkpoint(REPLICATION_OFFSET_CHECKPOINT),
                    )
                )
                tasks.create_task(
                    self._every(
                        lambda config: config.log_flush_offset_checkpoint_interval_ms,
                        lambda: self.checkpoint(RECOVERY_POINT_CHECKPOINT),
                    )
                )
                tasks.create_task(
                    self._every(
                        lambda config: config.log_flush_start_offset_checkpoint_interval_ms,
                        lambda: self.checkpoint(LOG_START_OFFSET_CHECKPOINT),
                    )
                )
                tasks.create_task(
                    self._every(
                        lambda config: config.producer_id_expiration_check_interval_ms, self.expire_producers
                    )
                )
                tasks.create_task(self._keep_producers_in_memory())
                if self._config().log_cleaner_enable:
                    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
                    tasks.create_task(self._keep_cleaners(tasks))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            self._throttle.stop()

    async def _every(
        self,
        interval_ms: Callable[[BrokerConfig], int],
        work: Callable[[], Awaitable[None]],
        *,
        first_ms: int | None = None,
    ) -> None:
        pause_ms = interval_ms(self._config()) if first_ms is None else first_ms
        while True:
            waited_ms = 0
            while waited_ms < pause_ms:
                step_ms = min(pause_ms - waited_ms, MAX_SLEEP_MS)
                await asyncio.sleep(step_ms / 1000)
                waited_ms += step_ms
                if first_ms is None:
                    pause_ms = interval_ms(self._config())
            first_ms = None
            pause_ms = max(1, interval_ms(self._config()))
            await work()

    def _logs(self) -> list[PartitionLog]:
        return list(self._log_manager.logs.values())

    async def _logs_in_turns(self) -> AsyncIterator[PartitionLog]:
        """Yield all logs, some in each turn of the loop, without those that go meanwhile."""
        for count, log in enumerate(self._logs(), 1):
            if self._is_current(log):
                yield log
            if count % LOOKED_AT_PER_TURN == 0:
                await asyncio.sleep(0)

    def _is_current(self, log: PartitionLog) -> bool:
        name, manager = log.topic_partition, self._log_manager
        return log is manager.logs.get(name) or log is manager.future_logs.get(name)

    # ---- retention -------------------------------------------------------------------------------

    async def apply_retention(self) -> None:
        """Drop the segments that have outlived retention.ms, retention.bytes or the log start offset."""
        logs = self._logs()
        for start in range(0, len(logs), LOGS_PER_TURN):
            some = [(log, tuple(log.segments)) for log in logs[start : start + LOGS_PER_TURN]]
            # The newest timestamp of a closed segment stands in its index: the first look reads the disk.
            measured = await asyncio.to_thread(_measured_all, [segments for _, segments in some])
            for (log, segments), spans in zip(some, measured, strict=True):
                if spans is not None and self._is_current(log) and tuple(log.segments) == segments:
                    self._retain(log, spans)
            self._log_manager.collect_deleted_files([log for log, _ in some])

    def _retain(self, log: PartitionLog, spans: Sequence[SegmentSpan]) -> None:
        now_ms = self._clock.now_ms()
        # The active segment may have grown since it was measured.
        active = log.active_segment
        current = [*spans[:-1], SegmentSpan(active.base_offset, active.size_bytes, active.largest_timestamp)]
        plan = retention_plan(
            current,
            config=log.config,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            now_ms=now_ms,
        )
        if not plan.reasons:
            return
        try:
            log.delete_segments(log.segments[: plan.delete_count], now_ms=now_ms)
        except KafkaError:
            return  # Its directory is offline now.
        self._log_manager.notes.append(
            f"{log.topic_partition}: {plan.delete_count} segments deleted, {plan.reasons[-1].value};"
            f" the log starts at {log.log_start_offset}."
        )

    # ---- durability ------------------------------------------------------------------------------

    async def flush_due_logs(self) -> None:
        """Force to disk what flush.messages or flush.ms ask for."""
        now_ms = self._clock.now_ms()
        async for log in self._logs_in_turns():
            if is_flush_due(
                config=log.config,
                log_end_offset=log.log_end_offset,
                recovery_point=log.recovery_point,
                last_flush_ms=log.last_flush_ms,
                now_ms=now_ms,
            ):
                await self.flusher.flush(log)

    async def checkpoint(self, *names: str) -> None:
        """Write the offset checkpoints of these names, where they have changed."""
        gathered, logs = self._log_manager.gather_offsets(*names), list[PartitionLog]()
        async for log in self._logs_in_turns():
            gathered.add(log)
            logs.append(log)
        for log in logs:
            if not self._is_current(log):
                gathered.remove(log.topic_partition)
        failed = await asyncio.to_thread(self._log_manager.gathered_writer(gathered))
        self._log_manager.report_failures(failed)

    async def upkeep(self) -> None:
        """Flush segments that were rolled, so that recovery need not read them, and remove old files."""
        async for log in self._logs_in_turns():
            if log.recovery_point < log.active_segment.base_offset:
                await self.flusher.flush(log, rolled_only=True)
            if log.deleted_paths:
                self._log_manager.collect_deleted_files((log,))
        self._log_manager.collect_deleted_files(tuple(self._log_manager.future_logs.values()))
        due = self._log_manager.removals.take_due()
        if due:
            self._log_manager.report_failures(await asyncio.to_thread(self._log_manager.removals.remove, due))
        self._on_notes()
        if not self._log_manager.online_dirs:
            reasons = "; ".join(f"{one.path}: {one.offline_reason}" for one in self._log_manager.offline_dirs)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Every log directory has failed, so the node shuts down. {reasons}",
            )

    async def expire_producers(self) -> None:
        """Forget idempotent producers that were silent for producer.id.expiration.ms."""
        now_ms, expiration_ms = self._clock.now_ms(), self._config().producer_id_expiration_ms
        async for log in self._logs_in_turns():
            for _ in log.remove_expired_producers(now_ms, expiration_ms):
                await asyncio.sleep(0)

    async def _keep_producers_in_memory(self) -> None:
        while True:
            await asyncio.sleep(PRODUCER_MEMORY_CHECK_SECONDS)
            await self.forget_silent_producers()

    async def forget_silent_producers(self) -> int:
        """Forget the producers that were silent for longest, if all have too much memory; return how many.

        None of an open transaction, and none that was heard of in the last two minutes: it may send its last
        batch again, which must be known then.
        """
        tally = self._log_manager.producer_tally
        surplus = tally.surplus
        if not surplus:
            return 0
        before_ms = self._clock.now_ms() - MIN_SILENCE_MS
        silent, forgotten = SilentProducers(), 0
        logs = [log for log in self._logs() if log.producer_id_count]
        for log in logs:
            for last_seen_ms in log.silent_producers(before_ms):
                silent.add(last_seen_ms)
                await asyncio.sleep(0)
        before_ms = min(before_ms, silent.heard_before_ms(surplus))
        for log in logs:
            for count in log.forget_silent_producers(before_ms):
                forgotten += count
                await asyncio.sleep(0)
        return forgotten

    # ---- cleaning --------------------------------------------------------------------------------

    def _cleaner_count(self) -> int:
        return min(self._config().log_cleaner_threads, MAX_CLEANERS)

    async def _keep_cleaners(self, tasks: asyncio.TaskGroup) -> None:
        """Have as many cleaners as log.cleaner.threads asks for; one too many ends after its round."""
        while True:
            for number in range(self._cleaner_count()):
                if number not in self.cleaners:
                    self.cleaners.add(number)
                    tasks.create_task(self._clean_while_wanted(number))
            await asyncio.sleep(CLEANER_CHECK_SECONDS)

    async def _clean_while_wanted(self, number: int) -> None:
        try:
            while number < self._cleaner_count():
                if not await self.clean_dirtiest_log():
                    await self._back_off(number)
        finally:
            self.cleaners.discard(number)

    async def _back_off(self, number: int) -> None:
        """Rest for log.cleaner.backoff.ms as it is now: one that was made shorter is not slept out."""
        now = asyncio.get_running_loop().time
        began = now()
        rest = MIN_BACKOFF_SECONDS
        while rest > 0 and number < self._cleaner_count():
            await asyncio.sleep(min(rest, CLEANER_CHECK_SECONDS))
            rest = began + self._config().log_cleaner_backoff_ms / 1000 - now()

    async def clean_dirtiest_log(self) -> bool:
        """One round over the compacted log that needs it most; False when none does."""
        job = self.cleaner.next_job(self._clock.now_ms())
        if job is None:
            return False
        offset_map: OffsetMap | None = None
        try:
            offset_map = await self._clean(job)
        except CleaningAborted:
            pass
        except KafkaError as error:
            # A log that has failed went offline with its directory; anything else is in the log itself.
            if job.log.failure is None:
                self.cleaner.set_apart(job.log, error.detail)
                self.scrub.soon(job.log.topic_partition)
        except OSError as error:
            if self.cleaner.is_current(job):
                job.log.flush_failed(error)
        finally:
            pending = self.cleaner.finish(job, offset_map)
        if pending is not None:
            failed = await asyncio.to_thread(self._log_manager.write_pending, [pending])
            self._log_manager.report_failures(failed)
        return True

    async def _clean(self, job: CleaningJob) -> OffsetMap:
        threads = max(1, self._cleaner_count())
        buffer_bytes = self._key_bytes() // threads
        self.used_key_bytes += buffer_bytes
        try:
            return await self._clean_with(job, buffer_bytes, threads)
        finally:
            self.used_key_bytes -= buffer_bytes

    async def _clean_with(self, job: CleaningJob, buffer_bytes: int, threads: int) -> OffsetMap:
        config, on_bytes = self._config(), self._throttle.wait
        offset_map = await self._in_thread(
            job,
            lambda is_over: index_dirty(
                job,
                buffer_bytes=buffer_bytes,
                load_factor=config.log_cleaner_io_buffer_load_factor,
                on_bytes=on_bytes,
                is_over=is_over,
            ),
        )

        def clean(group: Sequence[Segment], _: IsOver) -> CleanedGroup:
            return clean_group(
                job,
                group,
                offset_map,
                on_bytes=on_bytes,
                io_buffer_bytes=max(1, config.log_cleaner_io_buffer_size // threads // 2),
            )

        groups = await asyncio.to_thread(groups_to_clean, job, offset_map)
        if groups:
            await self._keep_recovery_point(job)
        for group in groups:
            if not self.cleaner.is_current(job):
                raise CleaningAborted(f"{job.log.topic_partition} no longer exists")
            cleaned = await self._in_thread(job, partial(clean, group))
            self.cleaner.swap(job, cleaned)
        stats = job.stats
        self._log_manager.notes.append(
            f"{job.log.topic_partition} cleaned from {job.first_dirty_offset} to"
            f" {min(job.end_offset, offset_map.latest_offset + 1)}: {stats.bytes_read:,} bytes and"
            f" {stats.records_read:,} records are now {stats.bytes_written:,} and {stats.records_written:,}."
        )
        return offset_map

    async def _in_thread(self, job: CleaningJob, work: Callable[[IsOver], T]) -> T:
        """Do a part of a round in a thread, and count its CPU time; `work` may ask if the round is over."""

        def timed() -> tuple[float, T]:
            began_s = time.thread_time()
            done = work(lambda: time.thread_time() - began_s > ROUND_CPU_S)
            return time.thread_time() - began_s, done

        cpu_s, done = await asyncio.to_thread(timed)
        self.cleaner.costs.add(job.log.topic_partition.topic, cpu_s, self._clock.now_ms())
        return done

    async def _keep_recovery_point(self, job: CleaningJob) -> None:
        """Write the recovery point before anything below it is compacted.

        Of a segment above it that ends before the next one begins, the rest is taken for lost (logstore D7).
        """
        if job.log.recovery_point < job.end_offset:
            await self.flusher.flush(job.log, rolled_only=True)
        if job.log.recovery_point < job.end_offset:
            raise CleaningAborted(f"{job.log.topic_partition} was truncated, or cannot be flushed")
        await self.checkpoint(RECOVERY_POINT_CHECKPOINT)

    @asynccontextmanager
    async def refilling(self, log: PartitionLog, end_offset: int) -> AsyncIterator[None]:
        """Keep the cleaner away from a log whose closed segments below `end_offset` are about to be replaced.

        What the new ones hold may never have been cleaned, and they may end before the next begins: the
        checkpoints say so before they are in place (logstore D7). KAFKA_STORAGE_ERROR when that cannot be
        written.
        """
        name = log.topic_partition
        while not self.cleaner.reserve(name):
            await asyncio.sleep(CLEANER_CHECK_SECONDS)
        try:
            if log.recovery_point < end_offset:
                await self.flusher.flush(log, rolled_only=True)
            if log.recovery_point < end_offset:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{name} was truncated in the meantime, or cannot be flushed.",
                )
            await self.checkpoint(RECOVERY_POINT_CHECKPOINT)
            if log.config.compact and self._log_manager.cleaned_offset(log) is not None:
                pending = self._log_manager.set_cleaned_offset(log, log.segments[0].base_offset)
                failed = await asyncio.to_thread(self._log_manager.write_pending, [pending])
                self._log_manager.report_failures(failed)
            yield
            self.cleaner.uncleanable.pop(name, None)
        finally:
            self.cleaner.release(name)

    # ---- moves between log directories -----------------------------------------------------------

    def _move_interval_ms(self, _: BrokerConfig) -> int:
        return MOVE_INTERVAL_MS if self._log_manager.future_logs else FIRST_MOVE_INTERVAL_MS

    async def move_logs(self) -> None:
        """Copy the logs that AlterReplicaLogDirs moves, and put the copies that have caught up in place."""
        for name in tuple(self._log_manager.future_logs):
            while (log := self._log_manager.logs.get(name)) is not None:
                future = self._log_manager.future_logs.get(name)
                if future is None:
                    break
                try:
                    step = next_step(log, future, now_ms=self._clock.now_ms())
                    if step is None and not is_durable(log, future):
                        await self.flusher.flush(future)
                        if future.failure is not None:
                            break
                        continue
                    if step is None:
                        self._on_moved(name, self._log_manager.swap_in_future(name))
                        break
                    content = await asyncio.to_thread(step.read)
                    if self._log_manager.future_logs.get(name) is not future or not self._is_current(log):
                        break
                    future.append_as_follower(content, now_ms=self._clock.now_ms())
                    await self._pace_copy(len(content))
                except OSError as error:
                    if self._is_current(log):
                        log.flush_failed(error)
                    break
                except KafkaError as error:
                    self._log_manager.warnings.append(f"{name} cannot be moved: {error.detail}")
                    self._log_manager.abandon_future(name)
                    break

    async def _pace_copy(self, size_bytes: int) -> None:
        """Wait until so many bytes may have been copied; a limit that changes counts within a second."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while True:
            rate = self._config().replica_alter_log_dirs_io_max_bytes_per_second
            wait_s = begin + size_bytes / max(1, rate) - loop.time()
            if wait_s <= 0:
                return
            await asyncio.sleep(min(wait_s, MAX_PACE_S))


def _flush_interval_ms(config: BrokerConfig) -> int:
    interval_ms = config.values["log.flush.scheduler.interval.ms"]
    assert isinstance(interval_ms, int)
    return interval_ms


def _measured_all(logs: Sequence[Sequence[Segment]]) -> list[list[SegmentSpan] | None]:
    return [_measured(segments) for segments in logs]


def _measured(segments: Sequence[Segment]) -> list[SegmentSpan] | None:
    """The segments as retention looks at them; None when they went away meanwhile."""
    try:
        return [SegmentSpan(one.base_offset, one.size_bytes, one.largest_timestamp) for one in segments]
    except (OSError, KafkaError):
        return None
