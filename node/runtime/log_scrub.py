"""Looks for damage in the logs of a node, and has it repaired: round by round, and at once where it matters.

A log is read step by step in threads, so slowly that neither the disk nor the interpreter is busy with it.
Indexes that are wrong are built anew from their batches. Batches that are wrong come again from another
replica (`segment_repair`); where that is not possible they are named, and left as they are.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from logstore.errors import KafkaError
from logstore.log_check import (
    Damage,
    FileKind,
    LogCheck,
    check_of,
    rebuilt_indexes,
    write_indexes,
)
from logstore.log_manager import LogManager
from logstore.log_reader import SegmentsChanged
from logstore.partition_log import PartitionLog
from logstore.topic_partition import TopicPartition
from node.clock import Clock
from node.config import BrokerConfig

# Of the time, the scrub works at most one part in so many: small batches cost more time than bytes.
REST_PER_WORK: Final = 9
MAX_PAUSE_S: Final = 1.0  # how soon a changed rate holds
MAX_SLEEP_S: Final = 10.0  # how soon a changed interval holds
RETRY_S: Final = 60.0  # a log is read again after this where it must be, at the earliest

log = logging.getLogger(__name__)
# Brings the batches of a damaged segment back; None when it has, else why that cannot be done.
Repair = Callable[[LogCheck, Damage], Awaitable[str | None]]


class Unrepaired(NamedTuple):
    """Damage that is still there, and why."""

    topic_partition: TopicPartition
    path: str
    position: int
    offset: int
    reason: str


class LogScrub:
    """The scrub of one node. `run` is cancelled to end it."""

    def __init__(
        self,
        *,
        log_manager: LogManager,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        repair: Repair,
    ) -> None:
        self._clock = clock
        self._log_manager = log_manager
        self._config = config
        self._repair = repair
        self.found = 0  # files
        self.repaired = 0  # of these, segments that came again from another replica
        self.indexes_rebuilt = 0  # of these, indexes
        self._known: dict[TopicPartition, dict[str, Unrepaired]] = {}  # by path
        self._urgent: dict[TopicPartition, None] = {}
        self._read_at: dict[TopicPartition, float] = {}  # when the last reading of a log began
        self._has_urgent = asyncio.Event()

    @property
    def unrepaired_count(self) -> int:
        """How many files are damaged; it may be asked from any thread."""
        return sum(map(len, list(self._known.values())))

    @property
    def unrepaired(self) -> list[Unrepaired]:
        """The damage that is known and still there."""
        return [one for known in self._known.values() for one in known.values()]

    def soon(self, name: TopicPartition) -> None:
        """A reader met damage in this log: read it whole, before any other."""
        self._urgent[name] = None
        self._has_urgent.set()

    def leads(self, name: TopicPartition) -> None:
        """This node leads the partition now: read its log soon, unless that was done since the start."""
        if name not in self._read_at:
            self.soon(name)

    async def run(self) -> None:
        """Read the logs, one after the other, until cancelled."""
        now = asyncio.get_running_loop().time
        due_at = now() + self._config().log_initial_task_delay_ms / 1000
        began_at: float | None = None
        waiting: list[TopicPartition] = []
        while True:
            name = self._next_urgent(now())
            if name is None and waiting:
                name = waiting.pop()
            if name is not None:
                await self.scrub(name)
                continue
            interval_ms = self._config().ottla_log_scrub_interval_ms
            if began_at is not None:
                due_at = began_at + interval_ms / 1000
            if interval_ms > 0 and now() >= due_at:
                began_at = now()
                waiting = sorted(self._log_manager.logs, reverse=True)
                self._forget_gone()
                continue
            await self._rest(due_at - now() if interval_ms > 0 else MAX_SLEEP_S)

    def _next_urgent(self, now: float) -> TopicPartition | None:
        self._has_urgent.clear()
        for name in list(self._urgent):
            if name not in self._log_manager.logs:
                del self._urgent[name]
            elif now - self._read_at.get(name, now - RETRY_S) >= RETRY_S:
                del self._urgent[name]
                return name
        return None

    async def _rest(self, seconds: float) -> None:
        if self._urgent:
            seconds = min(seconds, MAX_PAUSE_S)
        try:
            async with asyncio.timeout(max(0.01, min(seconds, MAX_SLEEP_S))):
                await self._has_urgent.wait()
        except TimeoutError:
            pass

    def _forget_gone(self) -> None:
        logs = self._log_manager.logs
        for name in [name for name in self._read_at if name not in logs]:
            del self._read_at[name]
        for name in [name for name in self._known if name not in logs]:
            del self._known[name]

    # ---- one log ---------------------------------------------------------------------------------

    async def scrub(self, name: TopicPartition) -> None:
        """Read one log, and have repaired what is wrong with it."""
        partition_log = self._log_manager.logs.get(name)
        if partition_log is None or partition_log.failure is not None:
            return
        self._read_at[name] = asyncio.get_running_loop().time()
        check = self._check(partition_log)
        try:
            await self._read(check)
            if not self._is_valid(check):
                return  # Its segments have changed under the reading; the next round has it again.
            self._known_anew(check)
            if any(damage.segment.is_active for damage in check.findings):
                partition_log.roll(now_ms=self._clock.now_ms())
            for damage in check.findings:
                if damage.kind is FileKind.LOG:
                    await self._bring_back(check, damage)
                elif self._is_valid(check):
                    await self._rebuild(check, damage)
        except SegmentsChanged:
            return
        except KafkaError as error:
            log.warning("%s cannot be checked: %s", name, error)
        except OSError as error:
            if self._is_valid(check):
                partition_log.flush_failed(error)

    def _check(self, partition_log: PartitionLog) -> LogCheck:
        compacted_to = self._log_manager.cleaned_offset(partition_log) or 0
        return check_of(partition_log, self._log_manager.disk, compacted_to=compacted_to)

    def _is_valid(self, check: LogCheck) -> bool:
        is_whole = check.log.failure is None and check.is_current
        return is_whole and self._log_manager.logs.get(check.log.topic_partition) is check.log

    async def _read(self, check: LogCheck) -> None:
        now = asyncio.get_running_loop().time
        steps = check.steps()
        while True:
            began = now()
            size = await asyncio.to_thread(next, steps, None)
            if size is None:
                return
            rested_from, took = now(), now() - began
            while True:
                rate = self._config().ottla_log_scrub_bytes_per_second
                pause = rested_from + max(size / rate, took * REST_PER_WORK) - now()
                if pause <= 0:
                    break
                await asyncio.sleep(min(pause, MAX_PAUSE_S))

    def _known_anew(self, check: LogCheck) -> None:
        """Take in what was found: what is new is logged and counted."""
        name = check.log.topic_partition
        before = self._known.pop(name, {})
        for damage in check.findings:
            path = str(damage.path)
            if path not in before:
                self.found += 1
                log.error("%s has a damaged %s file: %s.", name, damage.kind.value, damage)
            self._stays(check, damage, "its repair has not begun")

    def _stays(self, check: LogCheck, damage: Damage, reason: str) -> None:
        name, path = check.log.topic_partition, str(damage.path)
        known = self._known.setdefault(name, {})
        known[path] = Unrepaired(name, path, damage.position, damage.offset, reason)

    def _gone(self, check: LogCheck, damage: Damage) -> None:
        name = check.log.topic_partition
        known = self._known.get(name, {})
        known.pop(str(damage.path), None)
        if not known:
            self._known.pop(name, None)

    async def _rebuild(self, check: LogCheck, damage: Damage) -> None:
        segment = damage.segment
        if damage.kind is FileKind.TRANSACTION_INDEX and segment.base_offset not in check.known_transactions:
            self._stays(check, damage, "what it should hold began in a part of the log that is gone")
            return
        interval_bytes = check.log.config.index_interval_bytes
        rebuilt = await asyncio.to_thread(partial(rebuilt_indexes, check, segment, interval_bytes))
        if not self._is_valid(check):
            return
        write_indexes(rebuilt, self._log_manager.disk)
        self.indexes_rebuilt += 1
        self._gone(check, damage)
        log.warning("%s: %s was built anew.", check.log.topic_partition, damage.path)

    async def _bring_back(self, check: LogCheck, damage: Damage) -> None:
        reason = await self._repair(check, damage)
        if reason is None:
            check.all_segments = tuple(check.log.segments[: len(check.all_segments)])  # as it is now
            self.repaired += 1
            self._gone(check, damage)
            self._urgent[check.log.topic_partition] = None  # to be read once more, with the index of aborts
            log.warning("%s: %s came again from another replica.", check.log.topic_partition, damage.path)
            return
        self._stays(check, damage, reason)
        self._urgent[check.log.topic_partition] = None
        log.error("%s: %s stays damaged: %s.", check.log.topic_partition, damage.path, reason)
