"""The loop's side of the cleaner: it chooses the log to clean next and applies the result.

    job = manager.next_job(now_ms)                  on the loop
    offset_map = index_dirty(job, ...)              in a thread
    for group in groups_to_clean(job, offset_map):
        cleaned = clean_group(job, group, ...)      in a thread
        manager.swap(job, cleaned)                  on the loop
    manager.costs.add(topic, cpu_s, now_ms)         on the loop, after each piece
    pending = manager.finish(job, offset_map)       on the loop; the checkpoint is written in a thread

A log whose batches cannot be read is reported, marked as `uncleanable`, and not tried again before the next
start of the node.
"""

from collections.abc import Iterable
from typing import Final

from ottla.logstore.cleaner import CleanedGroup, CleaningAborted, CleaningJob, discard
from ottla.logstore.cleaning_costs import CleaningCosts
from ottla.logstore.cleaning_plan import CleanableRange, CleaningCandidate, candidate, cleanable_range
from ottla.logstore.compaction import LastRecord
from ottla.logstore.log_dir import PendingFile
from ottla.logstore.log_manager import LogManager
from ottla.logstore.offset_map import OffsetMap
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.retention import SegmentSpan
from ottla.logstore.words.config_def import LONG_MAX
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition

NO_RATIO: Final = 0.0


class CleanerManager:
    """The state of the cleaners: the logs being cleaned, those that cannot be, and the costs of topics.

    The dirtiest log of the cheapest topics is cleaned first. Each cleaner has one log at a time.
    """

    def __init__(self, log_manager: LogManager) -> None:
        self._log_manager = log_manager
        self._in_progress: set[TopicPartition] = set()
        # Partition -> the reason for which it is no longer cleaned.
        self.uncleanable: dict[TopicPartition, str] = {}
        self.costs = CleaningCosts()
        self.max_dirty_ratio = NO_RATIO
        self.last_run_ms = 0

    def next_job(self, now_ms: int) -> CleaningJob | None:
        """Return the job for the log that needs cleaning most; None if no log does.

        A log whose disk fails is taken offline, and one that cannot be read is marked as uncleanable; the
        others are still considered.
        """
        self.last_run_ms = now_ms
        logs = self._log_manager.logs
        for name in [name for name in self.uncleanable if name not in logs]:
            del self.uncleanable[name]
        self.max_dirty_ratio = NO_RATIO
        self.costs.keep_only({name.topic for name in logs})
        best: tuple[tuple[int, float], PartitionLog, CleanableRange, CleaningCandidate] | None = None
        for name, log in list(logs.items()):
            if not log.config.compact or name in self._in_progress or name in self.uncleanable:
                continue
            if name in self._log_manager.future_logs:
                continue  # Batches copied before a round would count as cleaned by it in the new directory.
            try:
                cleanable, measured = self._measure(log, now_ms)
            except OSError as error:
                log.flush_failed(error)
                continue
            except KafkaError as error:
                self.set_apart(log, error.detail)
                continue
            ratio = measured.dirty_ratio
            self.max_dirty_ratio = max(self.max_dirty_ratio, ratio)
            if not measured.is_due(log.config.min_cleanable_dirty_ratio):
                continue
            rank = (-self.costs.rounds(name.topic, now_ms), ratio)
            if best is None or rank > best[0]:
                best = (rank, log, cleanable, measured)
        if best is None:
            return None
        _, log, cleanable, measured = best
        self._in_progress.add(log.topic_partition)
        return self._job(log, cleanable, measured, now_ms)

    def _measure(self, log: PartitionLog, now_ms: int) -> tuple[CleanableRange, CleaningCandidate]:
        config, active = log.config, log.active_segment
        closed = log.segments[:-1]
        self._note_cut(log)
        # Timestamps may have to be read from the disk, so only if the lag setting needs them.
        spans = [
            SegmentSpan(
                one.base_offset,
                one.size_bytes,
                one.largest_timestamp if config.min_compaction_lag_ms > 0 else -1,
            )
            for one in closed
        ]
        cleanable = cleanable_range(
            spans,
            active_base_offset=active.base_offset,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            checkpoint=self._log_manager.cleaned_offset(log),
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            now_ms=now_ms,
        )
        uppers = [*(one.base_offset for one in closed[1:]), active.base_offset]
        first_timestamps = [
            one.first_timestamp
            for one, upper in zip(closed, uppers, strict=False)
            if config.max_compaction_lag_ms < LONG_MAX and upper > cleanable.first_dirty_offset
        ]
        measured = candidate(
            spans,
            cleanable,
            active_base_offset=active.base_offset,
            first_batch_timestamps=first_timestamps,
            max_compaction_lag_ms=config.max_compaction_lag_ms,
            now_ms=now_ms,
        )
        return cleanable, measured

    def _job(
        self, log: PartitionLog, cleanable: CleanableRange, measured: CleaningCandidate, now_ms: int
    ) -> CleaningJob:
        active = log.active_segment
        return CleaningJob(
            log=log,
            disk=self._log_manager.disk,
            directory=log.directory,
            config=log.config,
            closed=tuple(log.segments[:-1]),
            active_base_offset=active.base_offset,
            active_aborted=tuple(active.transaction_index.rows),
            first_dirty_offset=cleanable.first_dirty_offset,
            end_offset=measured.end_offset,
            last_records=last_records(log),
            now_ms=now_ms,
        )

    def is_current(self, job: CleaningJob) -> bool:
        """Return True if the log still exists in the same directory and works."""
        return (
            self._log_manager.logs.get(job.log.topic_partition) is job.log
            and job.log.directory == job.directory
            and job.log.failure is None
        )

    def swap(self, job: CleaningJob, cleaned: CleanedGroup) -> None:
        """Replace segments by the cleaned one; CleaningAborted if the log no longer has them."""
        log = job.log
        current = {id(segment) for segment in log.segments[:-1]}
        if not self.is_current(job) or not all(id(segment) in current for segment in cleaned.old):
            discard(cleaned.new)
            raise CleaningAborted(f"{log.topic_partition} changed while it was cleaned")
        log.replace_segments([cleaned.new], cleaned.old)

    def finish(self, job: CleaningJob, offset_map: OffsetMap | None) -> PendingFile | None:
        """End a round; return the checkpoint to write. An `offset_map` of None: it was not completed.

        None if there is nothing to write: the round was not completed, or the log has changed its place.
        """
        name = job.log.topic_partition
        self._in_progress.discard(name)
        if offset_map is None or not self.is_current(job) or name in self._log_manager.future_logs:
            return None
        cleaned = min(job.end_offset, offset_map.latest_offset + 1)
        cut = job.log.take_lowest_cut()
        return self._log_manager.set_cleaned_offset(job.log, cleaned if cut is None else min(cleaned, cut))

    def reserve(self, name: TopicPartition) -> bool:
        """Keep a log from being cleaned until `release`; return False if it is being cleaned now."""
        if name in self._in_progress:
            return False
        self._in_progress.add(name)
        return True

    def release(self, name: TopicPartition) -> None:
        """Allow a log to be cleaned again."""
        self._in_progress.discard(name)

    def set_apart(self, log: PartitionLog, reason: str) -> None:
        """Mark a log as uncleanable, and warn about it."""
        self.uncleanable[log.topic_partition] = reason
        self._log_manager.warnings.append(
            f"{log.topic_partition} cannot be cleaned, and is skipped from now on: {reason}"
        )

    def _note_cut(self, log: PartitionLog) -> None:
        """Lower the cleaner's checkpoint after a truncation, or after a crash that cost the log its end.

        Records written there since are dirty.
        """
        cleaned, cut = self._log_manager.cleaned_offset(log), log.take_lowest_cut()
        if cleaned is not None and cut is not None and cut < cleaned:
            self._log_manager.set_cleaned_offset(log, cut)

    @property
    def in_progress(self) -> Iterable[TopicPartition]:
        """The partitions that are being cleaned."""
        return tuple(self._in_progress)


def last_records(log: PartitionLog) -> dict[int, LastRecord]:
    """Return the last data record of every producer with state in the log."""
    return {
        entry.producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
        for entry in log.active_producers()
    }
