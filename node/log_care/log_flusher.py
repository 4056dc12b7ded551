"""Forces logs to disk, in threads: what flush.messages and flush.ms ask for, and leaders on their own.

A log is flushed by one thread at a time. What is appended meanwhile waits for the next flush of it, all
together, so a slow disk is asked less often and not more.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Final

from ottla.logstore.flush_target import FlushTarget
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.clock import Clock, monotonic_s
from ottla.node.replica.partition import Partition

# Logs that are forced to disk side by side. The threads are also those of cold reads, of which some are left.
MAX_FLUSHES: Final = 4


class LogFlusher:
    """The flushes of one node. `run` is cancelled to end those that were asked for with `flush_soon`."""

    def __init__(
        self,
        *,
        is_current: Callable[[PartitionLog], bool],
        clock: Clock,
        on_flushed: Callable[[PartitionLog], None],
    ) -> None:
        """`is_current`: it is not deleted, nor replaced by its copy. `on_flushed` is told of each flush."""
        self._is_current = is_current
        self._clock = clock
        self._on_flushed = on_flushed
        self.times = LatencyHistogram()
        self._waiting: asyncio.Queue[PartitionLog] = asyncio.Queue()  # a log is in it once at most
        self._under_way: dict[PartitionLog, bool] = {}  # whether there is more since its flush was asked for

    async def run(self) -> None:
        """Flush what waits, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_FLUSHES):
                tasks.create_task(self._flush_waiting())

    def flush_soon(self, log: PartitionLog) -> None:
        """Make durable what is in a log now."""
        if log in self._under_way:
            self._under_way[log] = True
        else:
            self._under_way[log] = False
            self._waiting.put_nowait(log)

    async def _flush_waiting(self) -> None:
        while True:
            log = await self._waiting.get()
            self._under_way[log] = False
            if log.recovery_point < log.log_end_offset:
                await self.flush(log)
            has_more = self._under_way[log] or log.flush_due_from is not None
            if has_more and self._may_flush(log):
                self._waiting.put_nowait(log)
            else:
                del self._under_way[log]

    async def until_safe(self, partition: Partition) -> None:
        """Flush until nothing in the partition's log waits for the disk; or it is given up."""
        while (log := partition.log).flush_due_from is not None and self._may_flush(log):
            await self.flush(log)

    async def flush(self, log: PartitionLog, *, rolled_only: bool = False) -> None:
        """Make durable what is in a log now, or in its closed segments; a disk that fails fails the log."""
        if not self._may_flush(log):
            return
        try:
            target = log.flush_target()
        except KafkaError:
            return
        if rolled_only:
            target = _without_active(target, log)
        try:
            took_s = await asyncio.to_thread(_timed, target.run)
        except OSError as error:
            # The directory may have been renamed under the thread, because its topic was deleted.
            if self._is_current(log) and log.directory == target.directory:
                log.flush_failed(error)
            return
        self.times.observe(took_s)
        log.flushed(target, self._clock.now_ms())
        self._on_flushed(log)

    def _may_flush(self, log: PartitionLog) -> bool:
        return log.failure is None and self._is_current(log)


def _timed(work: Callable[[], None]) -> float:
    """How long it took, in seconds."""
    began_s = monotonic_s()
    work()
    return monotonic_s() - began_s


def _without_active(target: FlushTarget, log: PartitionLog) -> FlushTarget:
    """The target without the segment that still grows: its turn comes when it is rolled."""
    return dataclasses.replace(target, files=(), offset=log.active_segment.base_offset)
