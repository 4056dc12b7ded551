"""The opening of a log's directory: leftovers of a crash, lost indexes, torn tails.

After a clean shutdown only the ends of the indexes are read. After a crash the segments at and above the
recovery point are read batch by batch: the first batch that is not whole ends the log, everything from it on
is truncated, and the indexes, leader epochs, aborted transactions and producer snapshots are rebuilt by the
code that an append uses. Files that do not belong to a log are reported and left where they are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from ottla.logstore.disk import Disk
from ottla.logstore.leader_epoch_cache import LeaderEpochCache
from ottla.logstore.log_config import LogConfig
from ottla.logstore.producer_snapshots import ProducerSnapshots
from ottla.logstore.producer_state import ProducerState
from ottla.logstore.record import EndTransactionMarker, marker_of_batch
from ottla.logstore.record_batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    computed_crc,
)
from ottla.logstore.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    RECOVERY_SCAN_BYTES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    crc_of_range,
    file_name,
)
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError

_FILE_NAME = re.compile(
    r"(?P<offset>\d{20})(?P<kind>\.log|\.index|\.timeindex|\.txnindex|\.snapshot)"
    r"(?P<state>\.deleted|\.cleaned|\.swap)?"
)
_TEMPORARY = ".tmp"
KNOWN_FILES: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})
# The largest batch that recovery holds in memory; the CRC of a larger one is computed in pieces.
MAX_BUFFERED_BATCH_BYTES: Final = RECOVERY_SCAN_BYTES


RECORDS_ARE_LOST: Final = "the records in between are lost."  # a note that ends so is logged as a warning


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The content of a log's directory, ready for a `PartitionLog`; `notes` describes each oddity."""

    segments: list[Segment]
    epochs: LeaderEpochCache
    producers: ProducerState
    snapshots: ProducerSnapshots
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    notes: list[str] = field(default_factory=list)


def load_log(
    disk: Disk,
    directory: Path,
    config: LogConfig,
    *,
    now_ms: int,
    clean_shutdown: bool,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    compacted_to: int = 0,
) -> LoadedLog:
    """Open the log in `directory`, and recover it if needed; create a missing directory.

    A segment that begins below `compacted_to` may end before the next one begins. Blocks; OSError if the disk
    fails.
    """
    disk.make_directory(directory)
    notes: list[str] = []
    names = _resolve_leftovers(disk, directory, notes)
    segments = [
        Segment.open(disk, directory, offset) for offset in sorted(names.get(LOG_SUFFIX, frozenset()))
    ]
    _remove_orphans(disk, directory, names, notes)
    snapshots = ProducerSnapshots(disk, directory, names.get(SNAPSHOT_SUFFIX, frozenset()))
    epochs = LeaderEpochCache(disk, directory)
    epochs_lost = _load_epochs(epochs, LEADER_EPOCH_CHECKPOINT in names, bool(segments), notes)
    loader = _Loader(config, segments, epochs, snapshots, notes, now_ms, compacted_to)
    if segments:
        unclean_from = None if clean_shutdown else recovery_point
        if unclean_from is not None:
            # A power cut may have brought back snapshots of truncated batches, so those above the recovery
            # point are rebuilt. The first segment's snapshot is kept: its content cannot be found in the log.
            snapshots.remove_above(max(unclean_from, segments[0].base_offset))
        loader.recover_segments(unclean_from)
        log_end_offset = loader.open_last_segment(recovery_point if clean_shutdown else None)
        if log_end_offset < recovery_point:
            notes.append(
                f"{directory} ends at offset {log_end_offset}, although everything below "
                f"{recovery_point} was flushed to disk: {RECORDS_ARE_LOST}"
            )
        if log_end_offset < log_start_offset:
            notes.append(
                f"{directory} ends at {log_end_offset}, before its start {log_start_offset}:"
                " all segments are removed."
            )
            for segment in segments:
                segment.remove()
            segments.clear()
            epochs.clear()
            snapshots.clear()
    if not segments:
        segments.append(Segment.create(disk, directory, log_start_offset, config, now_ms=now_ms))
        log_end_offset = log_start_offset
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(log_end_offset)
    last_epoch = -1 if epochs_lost else _last_epoch(segments[-1])
    if -1 < last_epoch != epochs.latest_epoch:
        epochs_lost = True
        notes.append(
            f"{epochs.path} ends with epoch {epochs.latest_epoch}, but the log with epoch "
            f"{last_epoch}. It is rebuilt from the batches."
        )
        epochs.clear()
    if epochs_lost:
        _rebuild_epochs(epochs, segments)
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    snapshots.remove_above(log_end_offset)
    snapshots.remove_strays(segment.base_offset for segment in segments)
    producers = ProducerState()
    if snapshots.offsets or not clean_shutdown:
        notes += snapshots.load_latest(producers, segments[0].base_offset, log_end_offset, now_ms)
        replay_producers(producers, segments, log_end_offset, now_ms)
    producers.map_end_offset = log_end_offset
    return LoadedLog(
        segments=segments,
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=log_end_offset if clean_shutdown else min(recovery_point, log_end_offset),
        notes=notes,
    )


# Files.


def _resolve_leftovers(disk: Disk, directory: Path, notes: list[str]) -> dict[str, set[int]]:
    """Finish or undo what a crash interrupted, as Kafka does; return the offsets of the files by kind."""
    parsed: list[tuple[str, int, str, str]] = []
    found: dict[str, set[int]] = {}
    for name in disk.list_directory(directory):
        match = _FILE_NAME.fullmatch(name)
        if match:
            parsed.append((name, int(match["offset"]), match["kind"], match["state"] or ""))
        elif name.endswith(_TEMPORARY):
            disk.remove(directory / name)
        elif name in KNOWN_FILES:
            found[name] = set()
        else:
            notes.append(f"{directory / name} is not a file of a log; it is ignored.")
    first_cleaned = min((offset for _, offset, _, state in parsed if state == CLEANED_SUFFIX), default=None)
    swaps = []
    for name, offset, kind, state in parsed:
        # A `.swap` at or above a `.cleaned` file belongs to a replacement that had not taken effect.
        is_incomplete_swap = state == SWAP_SUFFIX and first_cleaned is not None and offset >= first_cleaned
        if state in (DELETED_SUFFIX, CLEANED_SUFFIX) or is_incomplete_swap:
            disk.remove(directory / name)
        elif state == SWAP_SUFFIX:
            swaps.append((name, offset, kind))
        else:
            found.setdefault(kind, set()).add(offset)
    _finish_swaps(disk, directory, swaps, found, notes)
    return found


def _finish_swaps(
    disk: Disk,
    directory: Path,
    swaps: list[tuple[str, int, str]],
    found: dict[str, set[int]],
    notes: list[str],
) -> None:
    logs = [offset for _, offset, kind in swaps if kind == LOG_SUFFIX]
    if logs:
        # The segments that these replace, all in their range of offsets, may not have been removed yet.
        first = min(logs)
        end = max(Segment.open(disk, directory, offset, suffix=SWAP_SUFFIX).find_end()[0] for offset in logs)
        for kind in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX):
            for offset in [offset for offset in found.get(kind, ()) if first <= offset < end]:
                disk.remove(directory / file_name(offset, kind))
                found[kind].discard(offset)
        notes.append(f"{directory}: finished an interrupted replacement of the offsets {first} to {end}.")
    for name, offset, kind in swaps:
        disk.rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))
        found.setdefault(kind, set()).add(offset)


def _remove_orphans(disk: Disk, directory: Path, names: dict[str, set[int]], notes: list[str]) -> None:
    for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        for offset in sorted(names.get(kind, set()) - names.get(LOG_SUFFIX, set())):
            path = directory / file_name(offset, kind)
            notes.append(f"{path} had no matching log file and was removed.")
            disk.remove(path)


def _load_epochs(epochs: LeaderEpochCache, exists: bool, has_segments: bool, notes: list[str]) -> bool:
    """Load the epochs; return True if their file is missing or broken, so that batches must be read."""
    if not exists:
        return has_segments
    try:
        epochs.load()
    except KafkaError as error:
        notes.append(f"{error.detail} It is rebuilt from the batches.")
        return True
    return False


def _rebuild_epochs(epochs: LeaderEpochCache, segments: list[Segment]) -> None:
    for segment in segments:
        for _, header in segment.headers():
            if header.partition_leader_epoch > epochs.latest_epoch:
                epochs.assign(header.partition_leader_epoch, header.base_offset)


def _last_epoch(segment: Segment) -> int:
    """Return the leader epoch of the last batches if the last two have the same, else -1."""
    before = last = -1
    try:
        for _, header in segment.headers(segment.offset_index.last().position):
            before, last = last, header.partition_leader_epoch
    except KafkaError:
        return -1  # the log check reports the damage
    return last if before == last else -1


# Segments.


class _Loader:
    """The recovery of the segments of one log, in the order of their offsets."""

    def __init__(
        self,
        config: LogConfig,
        segments: list[Segment],
        epochs: LeaderEpochCache,
        snapshots: ProducerSnapshots,
        notes: list[str],
        now_ms: int,
        compacted_to: int,
    ) -> None:
        self._config = config
        self._segments = segments
        self._epochs = epochs
        self._snapshots = snapshots
        self._notes = notes
        self._now_ms = now_ms
        self._compacted_to = compacted_to
        self._last_is_open = False
        self._producers = ProducerState()  # the state after the segment that was recovered last

    def recover_segments(self, unclean_from: int | None) -> None:
        """Recover segments above `unclean_from` (None: none) and those with a lost or broken index."""
        number = 0
        while number < len(self._segments):
            segment = self._segments[number]
            is_last = number + 1 == len(self._segments)
            end = None if is_last else self._segments[number + 1].base_offset
            is_unflushed = unclean_from is not None and (
                end is None or end > unclean_from or (end == unclean_from and _is_longer(segment, end))
            )
            reason = None if is_unflushed else segment.problem()
            if reason is None and is_last and not is_unflushed:
                reason = segment.problem_of_rows()
            if reason is not None:
                self._notes.append(f"{segment.path}: {reason}; its indexes are rebuilt.")
            if is_unflushed:
                # The epochs' file may be newer than these batches: a power cut can restore batches that were
                # truncated and written again in another leader epoch.
                self._epochs.truncate_from_end(segment.base_offset)
            if is_unflushed or reason is not None:
                # The segments after a flushed one are valid and stay, whatever damage it has.
                if self._ends_log(segment, end, is_unflushed=is_unflushed) and is_unflushed:
                    for later in self._segments[number + 1 :]:
                        self._notes.append(f"{later.path} comes after a torn segment and was removed.")
                        later.remove()
                    del self._segments[number + 1 :]
                    is_last = True
                if is_last:
                    self._last_is_open = True
                else:
                    segment.seal()
                    if is_unflushed and end is not None:
                        self._producers.map_end_offset = end
                        self._snapshots.take(self._producers)
            number += 1

    def open_last_segment(self, clean_end: int | None) -> int:
        """Make the last segment active; return the log end offset.

        After a clean shutdown the log ended at `clean_end`. If the last batch ends elsewhere, bits of it have
        flipped: it is kept, so that the log check finds the damage and a replica repairs it.
        """
        last = self._segments[-1]
        if not self._last_is_open:
            try:
                next_offset, end = last.find_end()
            except KafkaError:
                next_offset = end = -1
            is_whole = end == last.size_bytes
            if clean_end is not None and _is_damaged_at_end(last, next_offset, clean_end, is_whole=is_whole):
                self._notes.append(
                    f"{last.path} is damaged: the log ended at {clean_end}, its last whole batch ends at"
                    f" {next_offset}."
                )
                last.activate(clean_end)
                return clean_end
            if end == last.size_bytes:
                last.activate(next_offset)
                return next_offset
            cut_bytes = self._recover(last, None, is_unflushed=False).cut_bytes
            self._notes.append(
                f"{last.path} was not closed cleanly: {cut_bytes} bytes after its last whole "
                "batch were removed."
            )
        return last.find_end()[0]

    def _ends_log(self, segment: Segment, end_offset: int | None, *, is_unflushed: bool) -> bool:
        """Recover a segment; return True if it is torn, so that no later segment can be kept."""
        recovered = self._recover(segment, end_offset, is_unflushed=is_unflushed)
        if recovered.cut_bytes:
            self._notes.append(
                f"{segment.path}: {recovered.cut_bytes} bytes after the last whole batch were removed."
            )
            return True
        # A segment may be short by whole batches after a power cut, or, legally, after compaction.
        is_short = end_offset is not None and recovered.next_offset < end_offset
        if is_short and segment.base_offset >= self._compacted_to:
            self._notes.append(
                f"{segment.path} ends at {recovered.next_offset}, not at {end_offset}: it is torn."
            )
            return True
        return False

    def _recover(self, segment: Segment, end_offset: int | None, *, is_unflushed: bool) -> "RecoveredSegment":
        self._producers = producers = ProducerState()
        self._notes += self._snapshots.load_latest(
            producers, self._segments[0].base_offset, segment.base_offset, self._now_ms
        )
        before = [one for one in self._segments if one.base_offset < segment.base_offset]
        replay_producers(producers, before, segment.base_offset, self._now_ms)
        return recover_segment(
            segment,
            self._config,
            producers,
            self._epochs,
            end_offset,
            self._now_ms,
            is_unflushed=is_unflushed,
        )


def _is_damaged_at_end(segment: Segment, next_offset: int, clean_end: int, *, is_whole: bool) -> bool:
    """Return True if the last segment does not end as a clean shutdown left it."""
    if (
        next_offset == clean_end
        or not segment.base_offset < clean_end <= segment.base_offset + MAX_RELATIVE_OFFSET
    ):
        return False
    if not is_whole or next_offset < clean_end:
        return segment.size_bytes > 0
    previous_end, last = segment.base_offset, None
    for position, header in segment.headers(segment.offset_index.last().position):
        if last is not None:
            previous_end = last[1].next_offset
        last = position, header
    if last is None:
        return False
    position, header = last
    batch_end = position + header.size_bytes
    is_moved = header.base_offset != previous_end and previous_end + header.last_offset_delta + 1 == clean_end
    return is_moved or crc_of_range(segment.file, position + CRC_START, batch_end) != header.crc


def _is_longer(segment: Segment, end_offset: int) -> bool:
    """Return True if the file has more than the batches below the base offset of the next segment.

    A power cut may undo the truncation after which the next segment was created.
    """
    next_offset, end = segment.base_offset, 0
    try:
        for position, header in segment.headers(segment.offset_index.last().position):
            if header.base_offset >= end_offset:
                return True
            next_offset, end = header.next_offset, position + header.size_bytes
    except KafkaError:
        pass  # the batches before the damage are enough
    return next_offset == end_offset and end < segment.size_bytes


class RecoveredSegment(NamedTuple):
    """The result of a segment's recovery: the bytes truncated, and the offset after its last batch."""

    cut_bytes: int
    next_offset: int


def recover_segment(
    segment: Segment,
    config: LogConfig,
    producers: ProducerState,
    epochs: LeaderEpochCache,
    end_offset: int | None,
    now_ms: int,
    *,
    is_unflushed: bool,
) -> RecoveredSegment:
    """Read the segment batch by batch, truncate its torn tail and rebuild its indexes; it becomes active.

    `producers` is the state at its base offset, `end_offset` the base offset of the next segment. With
    `is_unflushed`, `epochs` has only the epochs of the segments before it.
    """
    segment.reset_for_recovery()
    valid_end, next_offset = 0, segment.base_offset
    limit = segment.base_offset + MAX_RELATIVE_OFFSET
    if end_offset is not None:
        limit = min(limit, end_offset - 1)
    for position, header, batch in _whole_batches(segment):
        if header.base_offset < next_offset or header.last_offset > limit:
            break
        if is_unflushed and 0 <= header.partition_leader_epoch < epochs.latest_epoch:
            break  # The batch was truncated and replaced, and a power cut undid only the truncation.
        if header.has_producer_id:
            try:
                aborted = apply_to_producers(producers, header, batch, now_ms)
            except KafkaError:
                break  # A control batch that cannot be parsed ends the log like one with a wrong CRC.
            if aborted is not None:
                segment.transaction_index.append(aborted)
        segment.index_batch(header.last_offset, header.max_timestamp, position, config.index_interval_bytes)
        if header.partition_leader_epoch > epochs.latest_epoch:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        next_offset = producers.map_end_offset = header.next_offset
        valid_end = position + header.size_bytes
    # The recovery point may move above this segment; then the next recovery will not rebuild these rows.
    segment.transaction_index.sync()
    return RecoveredSegment(segment.cut_tail(valid_end), next_offset)


def _whole_batches(segment: Segment) -> Iterator[tuple[int, BatchHeader, memoryview | None]]:
    """Yield (position, header, bytes) of each batch, up to the first that is torn or has a wrong CRC.

    The bytes are None for a batch larger than MAX_BUFFERED_BATCH_BYTES.
    """
    file, end = segment.file, segment.size_bytes
    piece, piece_start, position = memoryview(b""), 0, 0
    while end - position >= HEADER_SIZE:
        at = position - piece_start
        if len(piece) - at < HEADER_SIZE:
            piece, piece_start, at = memoryview(file.read_at(position, RECOVERY_SCAN_BYTES)), position, 0
        if len(piece) < HEADER_SIZE:
            return
        header = BatchHeader._make(HEADER.unpack_from(piece, at))
        size_bytes = header.size_bytes
        if (
            header.magic != MAGIC
            or header.batch_length < HEADER_SIZE - LOG_OVERHEAD
            or size_bytes > end - position
        ):
            return
        if not 0 <= header.records_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
            return
        batch: memoryview | None = None
        if size_bytes > MAX_BUFFERED_BATCH_BYTES:
            if crc_of_range(file, position + CRC_START, position + size_bytes) != header.crc:
                return
        else:
            if at + size_bytes > len(piece):
                piece, piece_start, at = memoryview(file.read_at(position, RECOVERY_SCAN_BYTES)), position, 0
            if len(piece) < size_bytes or computed_crc(piece, at, size_bytes) != header.crc:
                return
            batch = piece[at : at + size_bytes]
        yield position, header, batch
        position += size_bytes


# Producers.


def replay_producers(producers: ProducerState, segments: list[Segment], end_offset: int, now_ms: int) -> None:
    """Update `producers` by the batches from its end offset up to `end_offset`."""
    start_offset = producers.map_end_offset
    for number, segment in enumerate(segments):
        if max(segment.base_offset, start_offset) >= end_offset:
            break
        if number + 1 < len(segments) and segments[number + 1].base_offset <= start_offset:
            continue
        for position, header in segment.headers(segment.offset_index.lookup(start_offset).position):
            if header.base_offset >= end_offset:
                break
            if header.last_offset < start_offset or not header.has_producer_id:
                continue
            batch = segment.read_batch(position, header.size_bytes) if header.is_control else None
            apply_to_producers(producers, header, batch, now_ms)
    producers.map_end_offset = max(start_offset, end_offset)


def apply_to_producers(
    producers: ProducerState, header: BatchHeader, batch: bytes | memoryview | None, now_ms: int
) -> AbortedTransaction | None:
    """Update `producers` by a batch in the log; return the aborted transaction that it ends, or None."""
    if not header.is_control:
        producers.add_batch(header, now_ms)
        return None
    if batch is None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A control batch is too large.")
    marker = marker_of_batch(batch)
    if marker is None:
        return None  # It has another type, or compaction emptied the batch after its transaction's data.
    return end_transaction(
        producers,
        marker,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        offset=header.base_offset,
        timestamp=header.max_timestamp,
        now_ms=now_ms,
    )


def end_transaction(
    producers: ProducerState,
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    offset: int,
    timestamp: int,
    now_ms: int,
) -> AbortedTransaction | None:
    """Update `producers` by a marker in the log; return the aborted transaction that it ends, or None."""
    completed = producers.add_marker(
        marker,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        offset=offset,
        timestamp=timestamp,
        now_ms=now_ms,
    )
    if completed is None:
        return None
    last_stable_offset = producers.last_stable_offset_after(completed)
    producers.complete(completed)
    if not completed.is_aborted:
        return None
    return AbortedTransaction(
        completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
    )
