"""The periodic work on logs: retention, flushes, checkpoints, removal of files, cleaning, moves.

Each kind of work is a task on the event loop. Work that may wait for a disk runs in a thread, on data that no
longer changes, and its result is applied on the loop. If the disk of a log fails, its directory goes offline
and the task continues with the next log; once all directories have failed, the node shuts down.
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

UPKEEP_INTERVAL_MS: Final = 1_000  # between flushes of rolled segments and removals of old files
MAX_PACE_S: Final = 1.0
MOVE_INTERVAL_MS: Final = 200  # between checks of the copies of logs that are being moved
FIRST_MOVE_INTERVAL_MS: Final = 1_000  # between checks for the first log to move
MAX_SLEEP_MS: Final = 3_600_000  # after which a shortened interval takes effect, at the latest
# Logs that are handled in one turn of the loop.
LOGS_PER_TURN: Final = 50
LOOKED_AT_PER_TURN: Final = 512  # some 2 us each
# The time after which the interpreter switches from the cleaner's thread to the loop. Python's default of
# 5 ms would be added to each request while a log is cleaned.
SWITCH_INTERVAL_SECONDS: Final = 0.0005
PRODUCER_MEMORY_CHECK_SECONDS: Final = 1.0
# A producer gives up a batch after delivery.timeout.ms, two minutes by default; until then it may resend it.
MIN_SILENCE_MS: Final = 120_000
MAX_CLEANERS: Final = 32  # they share one interpreter; more would only divide the memory for keys
CLEANER_CHECK_SECONDS: Final = 1.0  # after which a changed log.cleaner.threads or .backoff.ms takes effect
# Searching all logs without a pause would leave the loop no time for other work.
MIN_BACKOFF_SECONDS: Final = 0.01
MAX_THROTTLE_STEP_SECONDS: Final = 0.1  # after which a changed rate, or a stop of the node, takes effect
MIN_CLEANER_BYTES_PER_SECOND: Final = 1.0  # for a rate of 0 or less, which practically stops cleaning

T = TypeVar("T")
IsOver = Callable[[], bool]


class Throttle:
    """A limit of bytes per second, for all threads that share it.

    The rate is read again during each wait, so a change takes effect at once, also for waiting threads.
    """

    __slots__ = ("_bytes_per_second", "_debt_bytes", "_is_stopped", "_lock", "_paid_at")

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._debt_bytes = 0.0
        self._paid_at = time.monotonic()
        self._is_stopped = False
        self._lock = threading.Lock()

    def wait(self, size: int) -> None:
        """Count `size` bytes, and sleep until the rate allows them; CleaningAborted after `stop`."""
        while (pause := self._seconds_to_wait(size)) > 0.001 and not self._is_stopped:
            time.sleep(min(pause, MAX_THROTTLE_STEP_SECONDS))
            size = 0
        if self._is_stopped:
            raise CleaningAborted("the node is stopping")

    def _seconds_to_wait(self, size: int) -> float:
        rate = max(self._bytes_per_second(), MIN_CLEANER_BYTES_PER_SECOND)
        with self._lock:
            now = time.monotonic()
            # A pause earns no credit, so that a burst never exceeds the rate.
            self._debt_bytes = max(0.0, self._debt_bytes - (now - self._paid_at) * rate) + size
            self._paid_at = now
            return self._debt_bytes / rate

    def stop(self) -> None:
        """Make all present and future waits raise CleaningAborted."""
        self._is_stopped = True


class LogMaintenance:
    """The periodic tasks of one node. `run` does them until it is cancelled."""

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
        """`on_moved` is called when a moved log replaces the old one, `on_flushed` after a log was flushed,
        `on_notes` when there may be new notes. `repair`, `replicas` and `metadata_damage` are for the scrub.
        `key_bytes` returns the memory for the keys of all cleaners, by default
        `log.cleaner.dedupe.buffer.size`.
        """
        self.cleaner = CleanerManager(log_manager)
        self._log_manager = log_manager
        self._config = config
        self._clock = clock
        self._on_moved = on_moved
        self._on_notes = on_notes
        self._key_bytes = key_bytes or (lambda: config().log_cleaner_dedupe_buffer_size)
        self.used_key_bytes = 0  # the limits of all rounds in progress
        self.cleaners: set[int] = set()  # the numbers of the running ones
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
        """Run the tasks until cancelled; KAFKA_STORAGE_ERROR once every log directory has failed."""
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
        """Yield all logs, some in each turn of the loop, except those removed meanwhile."""
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
        """Delete the segments beyond retention.ms or retention.bytes, or below the log start offset."""
        logs = self._logs()
        for start in range(0, len(logs), LOGS_PER_TURN):
            some = [(log, tuple(log.segments)) for log in logs[start : start + LOGS_PER_TURN]]
            # The largest timestamp of a closed segment is in its index, so the first check reads the disk.
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
        """Flush the logs that are due by flush.messages or flush.ms."""
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
        """Write the offset checkpoints with these names, if they have changed."""
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
        """Flush rolled segments, so that recovery need not read them, and remove old files.

        KAFKA_STORAGE_ERROR once every log directory has failed.
        """
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
        """Remove idempotent producers that have been silent for producer.id.expiration.ms."""
        now_ms, expiration_ms = self._clock.now_ms(), self._config().producer_id_expiration_ms
        async for log in self._logs_in_turns():
            for _ in log.remove_expired_producers(now_ms, expiration_ms):
                await asyncio.sleep(0)

    async def _keep_producers_in_memory(self) -> None:
        while True:
            await asyncio.sleep(PRODUCER_MEMORY_CHECK_SECONDS)
            await self.forget_silent_producers()

    async def forget_silent_producers(self) -> int:
        """Remove the producers silent for longest if all together use too much memory; return their number.

        A producer with an open transaction stays, and so does one that was active in the last two minutes: it
        may resend its last batch, which must then be recognised as a duplicate.
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
        before_ms = min(before_ms, silent.seen_before_ms(surplus))
        for log in logs:
            for count in log.forget_silent_producers(before_ms):
                forgotten += count
                await asyncio.sleep(0)
        return forgotten

    # ---- cleaning --------------------------------------------------------------------------------

    def _cleaner_count(self) -> int:
        return min(self._config().log_cleaner_threads, MAX_CLEANERS)

    async def _keep_cleaners(self, tasks: asyncio.TaskGroup) -> None:
        """Run as many cleaners as log.cleaner.threads says; a surplus cleaner ends after its round."""
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
        """Sleep for log.cleaner.backoff.ms, which may be shortened meanwhile."""
        now = asyncio.get_running_loop().time
        began = now()
        rest = MIN_BACKOFF_SECONDS
        while rest > 0 and number < self._cleaner_count():
            await asyncio.sleep(min(rest, CLEANER_CHECK_SECONDS))
            rest = began + self._config().log_cleaner_backoff_ms / 1000 - now()

    async def clean_dirtiest_log(self) -> bool:
        """Clean the dirtiest compacted log; return False if none needs it."""
        job = self.cleaner.next_job(self._clock.now_ms())
        if job is None:
            return False
        offset_map: OffsetMap | None = None
        try:
            offset_map = await self._clean(job)
        except CleaningAborted:
            pass
        except KafkaError as error:
            # A failed log went offline with its directory; any other error is in the content of the log.
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
        """Do a part of a round in a thread, and count its CPU time; `work` can check if that is used up."""

        def timed() -> tuple[float, T]:
            began_s = time.thread_time()
            done = work(lambda: time.thread_time() - began_s > ROUND_CPU_S)
            return time.thread_time() - began_s, done

        cpu_s, done = await asyncio.to_thread(timed)
        self.cleaner.costs.add(job.log.topic_partition.topic, cpu_s, self._clock.now_ms())
        return done

    async def _keep_recovery_point(self, job: CleaningJob) -> None:
        """Write the recovery point before segments below it are compacted.

        If a segment above it ends before the next one begins, the records in between count as lost (logstore
        D7).
        """
        if job.log.recovery_point < job.end_offset:
            await self.flusher.flush(job.log, rolled_only=True)
        if job.log.recovery_point < job.end_offset:
            raise CleaningAborted(f"{job.log.topic_partition} was truncated, or cannot be flushed")
        await self.checkpoint(RECOVERY_POINT_CHECKPOINT)

    @asynccontextmanager
    async def refilling(self, log: PartitionLog, end_offset: int) -> AsyncIterator[None]:
        """Keep the cleaner away from a log while its closed segments below `end_offset` are replaced.

        The new segments may contain records that were never cleaned, and may end before the next one begins.
        So the recovery point and the cleaned offset are written before they are put in place (logstore D7).
        KAFKA_STORAGE_ERROR if that fails.
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
        """Copy the logs that AlterReplicaLogDirs moves; replace each by its copy once it has caught up."""
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
        """Wait until the rate allows this many copied bytes; a changed rate takes effect within a second."""
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
    """Return the spans of segments for retention, or None if they were removed meanwhile."""
    try:
        return [SegmentSpan(one.base_offset, one.size_bytes, one.largest_timestamp) for one in segments]
    except (OSError, KafkaError):
        return None
