"""Reads the logs of a node for damage and has it repaired: in rounds, and at once after a reader met damage.

A log is read in small steps in threads, slowly enough to leave disk and interpreter to clients. Wrong indexes
are rebuilt from the batches. Damaged batches are restored from another replica (`segment_repair`); until then
this replica stays out of the ISR (`damaged_replicas`). Damage that cannot be repaired is logged and left as
it is. It is retried when the leader, the ISR or the replicas of the partition change, and otherwise with
growing pauses.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.checkpoint import decode_epochs
from ottla.logstore.disk import Disk
from ottla.logstore.leader_epoch_cache import EpochEntry
from ottla.logstore.log_check import (
    Damage,
    FileKind,
    LogCheck,
    check_of,
    rebuilt_indexes,
    write_indexes,
)
from ottla.logstore.log_manager import LogManager
from ottla.logstore.log_reader import SegmentsChanged
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.raft_check import MetadataDamage
from ottla.node.clock import Clock
from ottla.node.log_care.damaged_replicas import DamagedReplicas
from ottla.node.log_care.segment_repair import Outcome, SegmentRepair
from ottla.node.settings.config import BrokerConfig

# The pause after each step, in multiples of its duration: small batches cost more time than bytes.
REST_PER_WORK: Final = 9
REST_PER_URGENT_WORK: Final = 1  # of a segment in which a reader met damage
MAX_PAUSE_S: Final = 1.0  # after which a changed rate takes effect
MAX_SLEEP_S: Final = 10.0  # after which a changed interval takes effect
RETRY_S: Final = 60.0  # between urgent reads of a whole log, and before the first retry of a repair
PLACE_RETRY_S: Final = 5.0  # the same for one segment, and for a repair after the partition has changed
MAX_RETRY_S: Final = 3600.0  # the longest pause between retries of a repair
MAX_DOUBLINGS: Final = 10
METADATA_INTERVAL_S: Final = 3600.0
METADATA: Final = TopicPartition("__cluster_metadata", 0)
METADATA_REASON: Final = (
    "restart the node: another voter then sends it again, if there is one, or a later snapshot replaces it"
)

log = logging.getLogger(__name__)


class Unrepaired(NamedTuple):
    """Damage that was not repaired, and the reason."""

    topic_partition: TopicPartition
    path: str
    position: int
    offset: int
    reason: str
    kind: FileKind = FileKind.LOG


@dataclass(slots=True)
class Retry:
    """The time and circumstances of the last failed repair of a log, which determine the next retry."""

    failures: int
    tried_at: float
    placement: object

    def is_due(self, now: float, placement: object) -> bool:
        if placement != self.placement:
            return now - self.tried_at >= PLACE_RETRY_S
        pause_s = RETRY_S * float(2 ** min(self.failures - 1, MAX_DOUBLINGS))
        return now - self.tried_at >= min(MAX_RETRY_S, pause_s)


class LogScrub:
    """The scrub of one node. `run` reads the logs until it is cancelled."""

    def __init__(
        self,
        *,
        log_manager: LogManager,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        repair: SegmentRepair,
        replicas: DamagedReplicas,
        metadata_damage: Callable[[], Iterable[MetadataDamage]] = lambda: (),
    ) -> None:
        """`metadata_damage` checks the metadata log of this voter; it is called in a thread."""
        self._clock = clock
        self._log_manager = log_manager
        self._config = config
        self._repair = repair
        self._replicas = replicas
        self.found = 0  # damaged files, since the start
        self.repaired = 0  # of these, segments that were restored from another replica
        self.indexes_rebuilt = 0  # of these, indexes that were rebuilt
        self._known: dict[TopicPartition, dict[str, Unrepaired]] = {}  # by path
        self._retries: dict[TopicPartition, Retry] = {}  # of the logs in `_known`
        self._urgent: dict[TopicPartition, None] = {}
        self._places: dict[TopicPartition, int] = {}  # the offset at which a reader met damage
        self._read_at: dict[TopicPartition, float] = {}  # the start of the last read of a whole log
        self._place_read_at: dict[TopicPartition, float] = {}
        self._was_compacted: set[TopicPartition] = set()  # at some time, as gaps in their offsets show
        self._metadata_damage = metadata_damage
        self._metadata: dict[str, Unrepaired] = {}  # by path
        self._has_urgent = asyncio.Event()

    @property
    def unrepaired_count(self) -> int:
        """The number of damaged files. Thread-safe."""
        return sum(map(len, list(self._known.values()))) + len(self._metadata)

    @property
    def damaged_replica_count(self) -> int:
        """The number of replicas with damaged batches. Thread-safe."""
        return sum(map(_has_damaged_batches, list(self._known.values())))

    @property
    def unrepaired(self) -> list[Unrepaired]:
        """The known damage that was not repaired."""
        return [one for known in (*self._known.values(), self._metadata) for one in known.values()]

    def soon(self, name: TopicPartition, offset: int | None = None) -> None:
        """Read a log soon, since a reader met damage: first the segment with the offset, then all of it."""
        if name in self._known:
            return  # it is retried anyway
        if offset is not None:
            self._places[name] = offset
        self._urgent[name] = None
        self._has_urgent.set()

    def leads(self, name: TopicPartition) -> None:
        """Read the log of a partition that this node now leads, unless that was done since the start."""
        if name not in self._read_at:
            self.soon(name)

    async def run(self) -> None:
        """Read the logs one by one, until cancelled."""
        now = asyncio.get_running_loop().time
        due_at = now() + self._config().log_initial_task_delay_ms / 1000
        began_at: float | None = None
        waiting: list[TopicPartition] = []
        metadata_due_at = due_at
        while True:
            if self._config().ottla_log_scrub_interval_ms > 0 and now() >= metadata_due_at:
                metadata_due_at = now() + METADATA_INTERVAL_S
                await self.check_metadata()
            if await self._look_at_urgent(now()):
                continue
            if waiting:
                await self.scrub(waiting.pop())
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

    async def check_metadata(self) -> None:
        """Check the whole metadata log of this voter, which is small."""
        try:
            found = await asyncio.to_thread(lambda: list(self._metadata_damage()))
        except OSError as error:
            log.warning("The metadata log cannot be checked: %s", error)
            return
        before, self._metadata = self._metadata, {}
        for one in found:
            path = str(one.path)
            self._metadata[path] = Unrepaired(METADATA, path, one.position, -1, METADATA_REASON)
            if path not in before:
                self.found += 1
                log.error(
                    "The metadata log is damaged: %s at position %d: %s", path, one.position, one.problem
                )

    async def _look_at_urgent(self, now: float) -> bool:
        """Do the most urgent work that is due; return False if there is none."""
        self._has_urgent.clear()
        logs = self._log_manager.logs
        for name in [name for name in self._urgent if name not in logs]:
            self._urgent.pop(name)
            self._places.pop(name, None)
        for name in list(self._places):
            if now - self._place_read_at.get(name, now - PLACE_RETRY_S) >= PLACE_RETRY_S:
                self._place_read_at[name] = now
                await self.scrub(name, offsets=[self._places.pop(name)])
                return True
        for name in list(self._retries):
            if name not in logs:
                self._forget(name)
            elif self._retries[name].is_due(now, self._replicas.placement(name)):
                await self.retry(name)
                return True
        for name in list(self._urgent):
            if now - self._read_at.get(name, now - RETRY_S) >= RETRY_S:
                del self._urgent[name]
                await self.scrub(name)
                return True
        return False

    async def retry(self, name: TopicPartition) -> None:
        """Read and repair the damaged segments of a log again, or all of it if that is needed."""
        known = self._known.get(name, {})
        may_be_partial = name in self._read_at and all(one.kind is FileKind.LOG for one in known.values())
        offsets = [one.offset for one in known.values()] if may_be_partial else None
        await self.scrub(name, offsets=offsets)

    async def _rest(self, seconds: float) -> None:
        if self._urgent or self._retries:
            seconds = min(seconds, MAX_PAUSE_S)
        try:
            async with asyncio.timeout(max(0.01, min(seconds, MAX_SLEEP_S))):
                await self._has_urgent.wait()
        except TimeoutError:
            pass

    def _forget_gone(self) -> None:
        logs = self._log_manager.logs
        for name in [name for name in self._read_at if name not in logs]:
            self._forget(name)
        for name in [name for name in self._known if name not in logs]:
            self._forget(name)

    def _forget(self, name: TopicPartition) -> None:
        for those in (self._read_at, self._place_read_at, self._known, self._retries):
            those.pop(name, None)
        self._was_compacted.discard(name)

    # ---- one log ---------------------------------------------------------------------------------

    async def scrub(self, name: TopicPartition, *, offsets: list[int] | None = None) -> None:
        """Read one log, or its segments with these offsets, and repair the damage."""
        partition_log = self._log_manager.logs.get(name)
        if partition_log is None or partition_log.failure is not None:
            self._forget(name)
            return
        if offsets is None:
            self._read_at[name] = asyncio.get_running_loop().time()
        try:
            await self._check_and_repair(partition_log, offsets)
        except SegmentsChanged:
            pass
        except KafkaError as error:
            log.warning("%s cannot be checked: %s", name, error)
        except OSError as error:
            if partition_log.failure is None and self._log_manager.logs.get(name) is partition_log:
                partition_log.flush_failed(error)
        finally:
            self._settle(name)

    async def _check_and_repair(self, partition_log: PartitionLog, offsets: list[int] | None) -> None:
        check = self._check(partition_log, offsets)
        await self._read(check, is_urgent=offsets is not None)
        if not self._is_valid(check):
            return  # The segments changed during the read; the next round reads them.
        name = partition_log.topic_partition
        if check.is_compacted:
            self._was_compacted.add(name)
        await self._ask_others(check)
        await self._compare_epochs_file(check)
        self._replace_known(check, is_whole=offsets is None)
        if _has_damaged_batches(self._known.get(name, {})):
            await self._replicas.leave_isr(name)
        if not self._is_valid(check):
            return
        if any(damage.segment.is_active for damage in check.findings):
            partition_log.roll(now_ms=self._clock.now_ms())
        for damage in check.findings:
            if damage.kind is FileKind.LOG:
                await self._restore(check, damage)
            elif self._is_valid(check):
                await self._rebuild(check, damage)

    async def _ask_others(self, check: LogCheck) -> None:
        """Drop the findings that another replica has, too: they are no damage of the batches."""
        for damage in [one for one in check.findings if one.is_hole]:
            if await self._repair.is_hole_elsewhere(check, damage):
                check.findings.remove(damage)
        for damage in [one for one in check.findings if one.is_of_epoch]:
            if await self._repair.is_same_elsewhere(check, damage):
                check.findings.remove(damage)
                if check.epochs_damage is None:
                    self._urgent[check.log.topic_partition] = None  # read all batches to find the wrong file
                elif check.epochs_damage not in check.findings:
                    check.findings.append(check.epochs_damage)

    async def _compare_epochs_file(self, check: LogCheck) -> None:
        """Add a finding if the file of the leader epochs differs from the epochs in memory."""
        path, entries = check.log.epochs_path, check.log.epoch_entries
        if not entries or check.epochs_damage is not None:
            return
        wrong = await asyncio.to_thread(_wrong_epochs, self._log_manager.disk, path, entries)
        if wrong is not None and check.log.epoch_entries == entries and check.segments:
            check.batch_epochs = entries
            check.epochs_damage = Damage(
                kind=FileKind.EPOCHS,
                segment=check.segments[0].segment,
                path=path,
                position=0,
                offset=entries[0].start_offset,
                detail=wrong,
            )
            check.findings.append(check.epochs_damage)

    def _settle(self, name: TopicPartition) -> None:
        """Mark the replica of a log that was read as damaged or intact, and schedule the retry."""
        known = self._known.get(name)
        self._replicas.note(name, damaged=_has_damaged_batches(known or {}))
        if not known:
            self._retries.pop(name, None)
            return
        before = self._retries.get(name)
        failures = 1 if before is None else before.failures + 1
        now = asyncio.get_running_loop().time()
        self._retries[name] = Retry(failures, now, self._replicas.placement(name))

    def _check(self, partition_log: PartitionLog, offsets: list[int] | None) -> LogCheck:
        return check_of(
            partition_log,
            self._log_manager.disk,
            compacted_to=self._log_manager.cleaned_offset(partition_log) or 0,
            was_compacted=partition_log.topic_partition in self._was_compacted,
            offsets=offsets,
        )

    def _is_valid(self, check: LogCheck) -> bool:
        is_whole = check.log.failure is None and check.is_current
        return is_whole and self._log_manager.logs.get(check.log.topic_partition) is check.log

    async def _read(self, check: LogCheck, *, is_urgent: bool) -> None:
        now = asyncio.get_running_loop().time
        steps = check.steps()
        while True:
            began = now()
            size = await asyncio.to_thread(next, steps, None)
            if size is None:
                return
            rested_from, took = now(), now() - began
            if is_urgent:
                await asyncio.sleep(took * REST_PER_URGENT_WORK)
                continue
            while True:
                rate = self._config().ottla_log_scrub_bytes_per_second
                pause = rested_from + max(size / rate, took * REST_PER_WORK) - now()
                if pause <= 0:
                    break
                await asyncio.sleep(min(pause, MAX_PAUSE_S))

    def _replace_known(self, check: LogCheck, *, is_whole: bool) -> None:
        """Replace the known damage of the log, or of the segments read; log and count new findings."""
        name = check.log.topic_partition
        before = self._known.pop(name, {})
        if not is_whole:
            read = {str(path) for one in check.segments for path in one.segment.paths()}
            kept = {path: one for path, one in before.items() if path not in read}
            if kept:
                self._known[name] = kept
        for damage in check.findings:
            path = str(damage.path)
            if path not in before:
                self.found += 1
                log.error("%s has a damaged %s file: %s.", name, damage.kind.value, damage)
            self._stays(check, damage, before[path].reason if path in before else "it is being repaired")

    def _stays(self, check: LogCheck, damage: Damage, reason: str) -> bool:
        """Record the reason why damage was not repaired; return True if the reason is new."""
        name, path = check.log.topic_partition, str(damage.path)
        known = self._known.setdefault(name, {})
        before = known.get(path)
        known[path] = Unrepaired(name, path, damage.position, damage.offset, reason, damage.kind)
        return before is None or before.reason != reason

    def _gone(self, check: LogCheck, damage: Damage) -> None:
        name = check.log.topic_partition
        known = self._known.get(name, {})
        known.pop(str(damage.path), None)
        if not known:
            self._known.pop(name, None)

    async def _rebuild(self, check: LogCheck, damage: Damage) -> None:
        segment = damage.segment
        if damage.kind is FileKind.EPOCHS:
            assert check.batch_epochs is not None
            check.log.replace_epochs(check.batch_epochs, check.segments[-1].end_offset)
            self._was_rebuilt(check, damage)
            return
        if damage.kind is FileKind.TRANSACTION_INDEX and segment.base_offset not in check.known_transactions:
            if check.is_compacted:  # its content can only be restored together with the batches
                await self._restore(check, damage)
                return
            self._stays(check, damage, "the log must be read completely before its contents are known")
            self._urgent[check.log.topic_partition] = None
            return
        interval_bytes = check.log.config.index_interval_bytes
        rebuilt = await asyncio.to_thread(partial(rebuilt_indexes, check, segment, interval_bytes))
        if not self._is_valid(check):
            return
        write_indexes(rebuilt, self._log_manager.disk)
        self._was_rebuilt(check, damage)

    def _was_rebuilt(self, check: LogCheck, damage: Damage) -> None:
        self.indexes_rebuilt += 1
        self._gone(check, damage)
        log.warning("%s: %s was rebuilt.", check.log.topic_partition, damage.path)

    async def _restore(self, check: LogCheck, damage: Damage) -> None:
        name = check.log.topic_partition
        if damage.segment not in check.log.segments:
            # All closed segments of a compacted log are replaced together.
            self._restored(check, damage)
            return
        outcome = await self._repair.repair(check, damage)
        if outcome is Outcome.REPAIRED:
            check.all_segments = tuple(check.log.segments[: len(check.all_segments)])  # the new ones
            self._restored(check, damage)
            self._urgent[name] = None  # read it once more, transaction index included
            return
        reason = outcome.value if isinstance(outcome, Outcome) else outcome
        if self._stays(check, damage, reason):
            log.error("%s: %s stays damaged: %s.", name, damage.path, reason)

    def _restored(self, check: LogCheck, damage: Damage) -> None:
        self.repaired += 1
        self._gone(check, damage)
        log.warning("%s: %s was restored from another replica.", check.log.topic_partition, damage.path)


def _wrong_epochs(disk: Disk, path: Path, entries: Sequence[EpochEntry]) -> str | None:
    """Return the problem with the file of these leader epochs, or None if it is correct. Blocks."""
    try:
        found = decode_epochs(disk.read_file(path), path)
    except FileNotFoundError:
        return "the file is missing"
    except KafkaError as error:
        return error.detail
    return None if found == [tuple(entry) for entry in entries] else "its epochs differ from those in the log"


def _has_damaged_batches(known: dict[str, Unrepaired]) -> bool:
    return any(one.kind is FileKind.LOG for one in list(known.values()))
