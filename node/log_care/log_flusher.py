"""Flushes logs to disk, in threads: by flush.messages and flush.ms, and where too few replicas are in sync.

One thread at a time flushes a log. All that is appended meanwhile waits for the next flush together, so a
slow disk gets fewer flushes, not more.
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

# Logs that are flushed at the same time. Their threads are shared with cold reads, which need some, too.
MAX_FLUSHES: Final = 4


class LogFlusher:
    """The flushes of one node. `run` does those requested by `flush_soon`, until it is cancelled."""

    def __init__(
        self,
        *,
        is_current: Callable[[PartitionLog], bool],
        clock: Clock,
        on_flushed: Callable[[PartitionLog], None],
    ) -> None:
        """`is_current` is False for a deleted or replaced log; `on_flushed` is called after each flush."""
        self._is_current = is_current
        self._clock = clock
        self._on_flushed = on_flushed
        self.times = LatencyHistogram()
        self._waiting: asyncio.Queue[PartitionLog] = asyncio.Queue()  # contains each log at most once
        self._under_way: dict[PartitionLog, bool] = {}  # True if it was requested again

    async def run(self) -> None:
        """Flush the waiting logs, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_FLUSHES):
                tasks.create_task(self._flush_waiting())

    def flush_soon(self, log: PartitionLog) -> None:
        """Request a flush of the present content of a log."""
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
        """Flush until no batch in the partition's log waits for a flush, or the log has failed or is gone."""
        while (log := partition.log).flush_due_from is not None and self._may_flush(log):
            await self.flush(log)

    async def flush(self, log: PartitionLog, *, rolled_only: bool = False) -> None:
        """Flush the present content of a log, or its closed segments; an error of the disk fails the log."""
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
            # The directory may have been renamed meanwhile, because its topic was deleted.
            if self._is_current(log) and log.directory == target.directory:
                log.flush_failed(error)
            return
        self.times.observe(took_s)
        log.flushed(target, self._clock.now_ms())
        self._on_flushed(log)

    def _may_flush(self, log: PartitionLog) -> bool:
        return log.failure is None and self._is_current(log)


def _timed(work: Callable[[], None]) -> float:
    """Do the work, and return its duration in seconds."""
    began_s = monotonic_s()
    work()
    return monotonic_s() - began_s


def _without_active(target: FlushTarget, log: PartitionLog) -> FlushTarget:
    """Return the target without the active segment, which is flushed once it is rolled."""
    return dataclasses.replace(target, files=(), offset=log.active_segment.base_offset)
