"""The log check: it reads a whole log and reports damage to batches and to the indexes that point at them.

The CRC of a batch does not cover its base offset and leader epoch, so these are compared with the
neighbouring batches and with the epochs of the log. Indexes are compared with the batches; a wrong index can
be rebuilt from them, and so can the leader epochs. A `LogCheck` is made on the loop and runs step by step in
threads. Its findings count only while `is_current` is True: the log still has the files that were read.

Two things cannot be judged in full, because nothing on this disk says how they should be: offsets that leave
gaps in a compacted log, and the rows of aborted transactions that began below the first segment or were
compacted.
"""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.logstore.disk import Disk
from ottla.logstore.leader_epoch_cache import EpochEntry
from ottla.logstore.log_reader import SegmentsChanged
from ottla.logstore.offset_index import ROW as OFFSET_ROW
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.producer_state import ProducerState
from ottla.logstore.record import ControlType, marker_of_batch
from ottla.logstore.record_batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    BatchHeader,
)
from ottla.logstore.recovery import apply_to_producers
from ottla.logstore.segment import MAX_RELATIVE_OFFSET, Segment
from ottla.logstore.time_index import NO_TIMESTAMP
from ottla.logstore.time_index import ROW as TIME_ROW
from ottla.logstore.transaction_index import ROW as TRANSACTION_ROW
from ottla.logstore.transaction_index import VERSION, AbortedTransaction
from ottla.logstore.words.errors import KafkaError

# The bytes to read between two pauses. The CRC of a larger batch is computed in pieces of this size.
PIECE_BYTES: Final = 256 * 1024
MAX_FINDINGS: Final = 100  # for one log: with more damage it is copied as a whole anyway
MAX_CONTROL_BATCH_BYTES: Final = 4096  # a marker has some 80


class FileKind(Enum):
    """The kind of a damaged file."""

    LOG = "log"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    EPOCHS = "leader epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The first damage in a file; `offset` is that of the first record that may be affected."""

    kind: FileKind
    segment: Segment
    path: Path
    position: int
    offset: int
    detail: str
    is_hole: bool = False  # the segment ends before the next one begins, which may also be due to compaction
    is_of_epoch: bool = False  # the batch has another leader epoch than the log has at its offset

    def __str__(self) -> str:
        return f"{self.path}, position {self.position}, offset {self.offset}: {self.detail}"


class _EpochStart(NamedTuple):
    """A leader epoch as found in the batches."""

    epoch: int
    start_offset: int
    earliest_offset: int  # the lowest possible start, as batches in between may have been compacted away


class _Abort(NamedTuple):
    """A marker that aborts a transaction."""

    producer_id: int
    previous_end: int | None  # the offset of the same producer's previous marker, if known


class CheckedSegment(NamedTuple):
    """A segment, with its size and end when the check was made."""

    segment: Segment
    size_bytes: int
    end_offset: int  # the next segment's base offset, or the end of the log
    is_active: bool


@dataclass(slots=True, kw_only=True)
class LogCheck:
    """A check of one log; `findings` is complete when `steps` has ended."""

    log: PartitionLog
    disk: Disk
    segments: Sequence[CheckedSegment]
    all_segments: Sequence[Segment]
    cuts: int
    epochs: Sequence[EpochEntry]
    is_compacted: bool
    compacted_to: int = 0  # the cleaner's checkpoint
    is_partial: bool = False  # True: not all segments are read
    findings: list[Damage] = field(default_factory=list)
    # By base offset, the rows that a wrong transaction index should have, if all of them are known.
    known_transactions: dict[int, Sequence[AbortedTransaction]] = field(default_factory=dict)
    _producers: ProducerState = field(default_factory=ProducerState)
    _known_from: int = 0  # transactions that began below this offset are unknown
    _has_gaps: bool = False  # offsets are missing between undamaged batches
    _is_unbroken: bool = True  # all batches from the first segment on were read, without damage
    _last_markers: dict[int, int] = field(default_factory=dict)  # by producer
    _epoch_starts: list[_EpochStart] = field(default_factory=list)
    _other_epochs: list[Damage] = field(default_factory=list)  # batches with another epoch than the log has
    # The leader epochs of the batches, None if not all batches were read or the file is right; and the damage
    # of the file of epochs.
    batch_epochs: Sequence[EpochEntry] | None = None
    epochs_damage: Damage | None = None

    @property
    def is_current(self) -> bool:
        """True if the log still has everything that was read: nothing was truncated, replaced or deleted."""
        count = len(self.all_segments)
        return self.log.cuts == self.cuts and tuple(self.log.segments[:count]) == tuple(self.all_segments)

    def steps(self) -> Iterator[int]:
        """Read the log; yield the number of bytes that each step has read. Blocks; OSError if the disk fails.

        SegmentsChanged if a file was removed meanwhile.
        """
        if self.segments:
            self._known_from = self.segments[0].segment.base_offset
        previous_end = None if self.is_partial else self._known_from
        for one in self.segments:
            if previous_end != one.segment.base_offset:
                self._reset(one.segment.base_offset)
            previous_end = one.end_offset
            if len(self.findings) >= MAX_FINDINGS:
                return
            try:
                yield from self._check_segment(one)
            except FileNotFoundError as fault:
                raise SegmentsChanged from fault
        self._check_epochs()
        if self._has_gaps and not self.is_compacted:
            # Only compaction leaves gaps: the topic was once compacted, and this replica copied later.
            self.is_compacted = True
            self.findings = [one for one in self.findings if not one.is_hole]

    # ---- one segment -----------------------------------------------------------------------------

    def _check_segment(self, one: CheckedSegment) -> Iterator[int]:
        segment = one.segment
        rows = _OffsetRows(self.disk, segment, is_active=one.is_active)
        times = _TimeRows(self.disk, segment, is_active=one.is_active)
        expected: list[AbortedTransaction] = []
        damage: Damage | None = None
        aborts: dict[int, _Abort] = {}
        next_offset, end, gap = segment.base_offset, 0, None
        for step in _batches(one):
            if isinstance(step, int):
                yield step
                continue
            position, header, batch, detail = step
            if header is not None and detail is None:
                detail = self._misplaced(one, header, next_offset)
                if detail is not None and gap is not None and header.base_offset < next_offset:
                    # The previous batch left a gap and is above this one, so its offset is the wrong one.
                    damage = _damage(segment, *gap, f"its offset is above that of the next batch: {detail}")
                    break
            if detail is not None or header is None:
                damage = _damage(segment, position, next_offset, detail or "there is no batch")
                break
            if header.has_producer_id:
                try:
                    self._note_marker(header, batch, aborts)
                    aborted = apply_to_producers(self._producers, header, batch, 0)
                except KafkaError as error:
                    damage = _damage(
                        segment,
                        position,
                        next_offset,
                        error.detail or "its transaction marker cannot be read",
                    )
                    break
                if aborted is not None:
                    expected.append(aborted)
            rows.take(position, header)
            times.take(header)
            self._note_epoch(segment, position, header, next_offset)
            if gap is not None:
                self._has_gaps = True
            is_first = position == 0 and next_offset < self.log.log_start_offset
            is_gap = header.base_offset > next_offset and not is_first
            gap = (position, next_offset) if is_gap else None
            next_offset, end = header.next_offset, position + header.size_bytes
        if damage is None and not self.is_compacted and next_offset < one.end_offset:
            detail = f"the records up to {one.end_offset} are missing"
            damage = replace(_damage(segment, end, next_offset, detail), is_hole=True)
        if damage is not None:
            self.findings.append(damage)
            self._reset(one.end_offset)
            return
        self._note(segment, FileKind.OFFSET_INDEX, segment.offset_index.path, rows.wrong())
        self._note(segment, FileKind.TIME_INDEX, segment.time_index.path, times.wrong())
        wrong = self._wrong_transactions(one, expected, aborts)
        self._note(segment, FileKind.TRANSACTION_INDEX, segment.transaction_index.path, wrong)
        if wrong is not None and not self.is_compacted and self._is_unbroken and not one.is_active:
            # Readers of this log need no more of a transaction that began below the first segment.
            self.known_transactions[segment.base_offset] = tuple(expected)

    def _reset(self, offset: int) -> None:
        """Reset the producers' state: the batches below were not read, so open transactions are unknown."""
        self._producers, self._known_from = ProducerState(), offset
        self._last_markers.clear()
        self._is_unbroken = False

    def _note_marker(self, header: BatchHeader, batch: bytes | None, aborts: dict[int, _Abort]) -> None:
        marker = marker_of_batch(batch) if header.is_control and batch is not None else None
        if marker is None:
            return
        if marker.control_type is ControlType.ABORT:
            previous_end = self._last_markers.get(header.producer_id)
            aborts[header.base_offset] = _Abort(header.producer_id, previous_end)
        self._last_markers[header.producer_id] = header.base_offset

    def _note_epoch(self, segment: Segment, position: int, header: BatchHeader, next_offset: int) -> None:
        epoch, start_offset = header.partition_leader_epoch, self.log.log_start_offset
        if header.last_offset < start_offset:
            return
        offset = max(header.base_offset, start_offset)
        known = self._epoch_of(offset)
        if known >= 0 and epoch != known:
            detail = f"its leader epoch is {epoch}, but should be {known} at that offset"
            damage = replace(_damage(segment, position, header.base_offset, detail), is_of_epoch=True)
            self._other_epochs.append(damage)
        if epoch < 0:
            return
        if not self._epoch_starts or epoch != self._epoch_starts[-1].epoch:
            self._epoch_starts.append(_EpochStart(epoch, offset, max(min(next_offset, offset), start_offset)))

    def _check_epochs(self) -> None:
        """Decide which is damaged if epochs differ: the batches, or the file of the epochs."""
        starts, others = self._epoch_starts, self._other_epochs
        are_growing = all(one.epoch < other.epoch for one, other in pairwise(starts))
        if self._is_unbroken and are_growing and starts and not self._are_known(starts):
            self.batch_epochs = tuple(EpochEntry(one.epoch, one.start_offset) for one in starts)
            self.epochs_damage = Damage(
                kind=FileKind.EPOCHS,
                segment=self.segments[0].segment,
                path=self.log.epochs_path,
                position=0,
                offset=starts[0].start_offset,
                detail="its epochs differ from those of the batches",
            )
            # If only one batch differs, the batch may be wrong instead.
            if len(others) != 1:
                self.findings.append(self.epochs_damage)
                return
        named = {one.path for one in self.findings if one.kind is FileKind.LOG}
        for damage in others:
            if damage.path not in named:
                named.add(damage.path)
                self.findings.append(damage)

    def _are_known(self, starts: Sequence[_EpochStart]) -> bool:
        first, end = starts[0], self.segments[-1].end_offset
        if self._epoch_of(first.start_offset) != first.epoch:
            return False
        known = {
            entry.epoch: entry.start_offset
            for entry in self.epochs
            if first.start_offset < entry.start_offset < end
        }
        for one in starts[1:]:
            start_offset = known.pop(one.epoch, None)
            if start_offset is None or not one.earliest_offset <= start_offset <= one.start_offset:
                return False
        return not known or self.is_compacted or self._has_gaps

    def _note(self, segment: Segment, kind: FileKind, path: Path, wrong: "_Wrong | None") -> None:
        if wrong is not None:
            self.findings.append(
                Damage(
                    kind=kind,
                    segment=segment,
                    path=path,
                    position=wrong.position,
                    offset=segment.base_offset,
                    detail=wrong.detail,
                )
            )

    def _misplaced(self, one: CheckedSegment, header: BatchHeader, next_offset: int) -> str | None:
        """Return the fault in the offsets of a whole batch, which its CRC does not cover, or None."""
        if header.base_offset < next_offset:
            return f"its offset is {header.base_offset}, but {next_offset} was expected"
        limit = min(one.end_offset - 1, one.segment.base_offset + MAX_RELATIVE_OFFSET)
        if header.last_offset > limit:
            return f"its last offset is {header.last_offset}, but its segment ends before {limit + 1}"
        return None

    def _epoch_of(self, offset: int) -> int:
        number = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset) - 1
        return self.epochs[number].epoch if number >= 0 else NO_LEADER_EPOCH

    def _wrong_transactions(
        self, one: CheckedSegment, expected: Sequence[AbortedTransaction], aborts: Mapping[int, _Abort]
    ) -> "_Wrong | None":
        path = one.segment.transaction_index.path
        content = self.disk.read_file(path) if self.disk.exists(path) else b""
        if len(content) % TRANSACTION_ROW.size and not one.is_active:
            return _Wrong(len(content), f"its size is not a multiple of {TRANSACTION_ROW.size}")
        whole = len(content) - len(content) % TRANSACTION_ROW.size
        missing = {row.last_offset: row for row in expected}
        previous = one.segment.base_offset - 1
        for number, (version, *fields) in enumerate(TRANSACTION_ROW.iter_unpack(content[:whole])):
            row = AbortedTransaction(*fields)
            at = number * TRANSACTION_ROW.size
            if one.is_active and row.last_offset >= one.end_offset and row.last_offset > previous:
                break  # The row was added after the check was made.
            is_possible = (
                version == VERSION
                and previous < row.last_offset < one.end_offset
                and 0 <= row.first_offset <= row.last_offset
                and 0 <= row.last_stable_offset <= row.last_offset + 1
            )
            if not is_possible:
                return _Wrong(at, f"{row} is not a transaction of this segment")
            previous = row.last_offset
            real = missing.pop(row.last_offset, None)
            abort = aborts.get(row.last_offset)
            if abort is None:
                if not self.is_compacted:
                    return _Wrong(at, f"{row} was not aborted")
            elif abort.producer_id != row.producer_id:
                return _Wrong(
                    at, f"{row} has the wrong producer: the transaction was of producer {abort.producer_id}"
                )
            elif abort.previous_end is not None and row.first_offset <= abort.previous_end:
                return _Wrong(at, f"{row} begins before the previous transaction of this producer ended")
            elif real is None:
                if row.first_offset >= self._known_from and not self.is_compacted:
                    return _Wrong(at, f"{row} was not aborted")
            elif not self._is_same(row, real, abort):
                return _Wrong(at, f"{row} should be {real}")
        if missing and not self.is_compacted:
            return _Wrong(whole, f"{next(iter(missing.values()))} is missing")
        return None

    def _is_same(self, row: AbortedTransaction, real: AbortedTransaction, abort: _Abort) -> bool:
        """Return True if both rows agree, as far as the batches that were read can decide it.

        An earlier last stable offset does no harm: the search for aborted transactions only continues longer.
        """
        may_begin_earlier = self.is_compacted or (
            abort.previous_end is None and row.first_offset < self._known_from
        )
        is_earlier = row.last_stable_offset < real.last_stable_offset
        return (
            row.first_offset == real.first_offset
            or (may_begin_earlier and row.first_offset < real.first_offset)
        ) and (
            row.last_stable_offset == real.last_stable_offset
            or (is_earlier and (self.is_compacted or row.last_stable_offset < self._known_from))
        )


def check_of(
    log: PartitionLog,
    disk: Disk,
    *,
    compacted_to: int = 0,
    was_compacted: bool = False,
    offsets: Collection[int] | None = None,
) -> LogCheck:
    """Return a check of the current segments of `log`, or only of those with these offsets.

    Segments below the log start offset are not checked, as they may be torn.
    """
    bounds = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
    return LogCheck(
        log=log,
        disk=disk,
        segments=[
            CheckedSegment(segment, segment.size_bytes, end, segment.is_active)
            for segment, end in zip(log.segments, bounds, strict=True)
            if end > log.log_start_offset
            and (offsets is None or any(segment.base_offset <= offset < end for offset in offsets))
        ],
        all_segments=tuple(log.segments),
        cuts=log.cuts,
        epochs=log.epoch_entries,
        is_compacted=log.config.compact or compacted_to > 0 or was_compacted,
        compacted_to=compacted_to,
        is_partial=offsets is not None,
    )


# ---- indexes -------------------------------------------------------------------------------------


class _Wrong(NamedTuple):
    """The first wrong position in an index file, and the problem there."""

    position: int
    detail: str


def _read_rows(
    disk: Disk, segment: Segment, path: Path, row_bytes: int, *, is_active: bool
) -> tuple[bytes, _Wrong | None]:
    """Return the rows of an index file and its problem, if any.

    For an active segment there are no rows, because those in memory are newer than the file.
    """
    if is_active:
        return b"", None
    if not disk.exists(path):
        return b"", _Wrong(0, "the file is missing") if segment.size_bytes else None
    content = disk.read_file(path)
    if len(content) % row_bytes:
        return b"", _Wrong(len(content), f"its size is not a multiple of {row_bytes}")
    return content, None


class _OffsetRows:
    """The rows of an offset index, which are compared with the batches one after the other."""

    def __init__(self, disk: Disk, segment: Segment, *, is_active: bool) -> None:
        self._base_offset = segment.base_offset
        self._next = 0
        path = segment.offset_index.path
        content, self._wrong = _read_rows(disk, segment, path, OFFSET_ROW.size, is_active=is_active)
        rows = array("I", content)
        rows.byteswap()
        self._offsets, self._positions = rows[0::2], rows[1::2]

    def take(self, position: int, header: BatchHeader) -> None:
        """Compare the next row with a batch at `position`."""
        number = self._next
        if number < len(self._positions) and self._positions[number] <= position and self._wrong is None:
            is_right = (
                self._positions[number] == position > 0
                and self._offsets[number] == header.last_offset - self._base_offset
            )
            if is_right:
                self._next += 1
            else:
                self._wrong = self._at_row(number)

    def _at_row(self, number: int) -> _Wrong:
        return _Wrong(
            number * OFFSET_ROW.size,
            f"its row {self._offsets[number]}:{self._positions[number]} does not match a batch",
        )

    def wrong(self) -> _Wrong | None:
        """Return the first wrong row once all batches were taken; None if there is none."""
        if self._wrong is None and self._next < len(self._positions):
            return self._at_row(self._next)
        return self._wrong


class _TimeRows:
    """The rows of a time index, which are compared with the batches one after the other."""

    def __init__(self, disk: Disk, segment: Segment, *, is_active: bool) -> None:
        self._base_offset = segment.base_offset
        self._is_active = is_active
        self._next = 0
        self._largest = (NO_TIMESTAMP, 0)
        path = segment.time_index.path
        self._content, self._wrong = _read_rows(disk, segment, path, TIME_ROW.size, is_active=is_active)
        self._count = len(self._content) // TIME_ROW.size

    def take(self, header: BatchHeader) -> None:
        """Compare the next row with a batch."""
        if header.max_timestamp > self._largest[0]:
            self._largest = (header.max_timestamp, header.last_offset - self._base_offset)
            if self._next < self._count and self._row(self._next) == self._largest:
                self._next += 1

    def _row(self, number: int) -> tuple[int, int]:
        timestamp, offset = TIME_ROW.unpack_from(self._content, number * TIME_ROW.size)
        return timestamp, offset

    def wrong(self) -> _Wrong | None:
        """Return the first wrong row once all batches were taken; None if there is none."""
        if self._wrong is not None or self._is_active:
            return self._wrong
        if self._next < self._count:
            timestamp, offset = self._row(self._next)
            return _Wrong(self._next * TIME_ROW.size, f"its row {timestamp}:{offset} does not match a batch")
        last = self._row(self._count - 1) if self._count else (NO_TIMESTAMP, 0)
        if last != self._largest:
            return _Wrong(len(self._content), "it does not end with the largest timestamp")
        return None


# ---- batches -------------------------------------------------------------------------------------


class _Batch(NamedTuple):
    """A batch, or a position without a valid one. `content` is set for control batches only."""

    position: int
    header: BatchHeader | None
    content: bytes | None
    detail: str | None  # the problem of the batch


def _damage(segment: Segment, position: int, offset: int, detail: str) -> Damage:
    return Damage(
        kind=FileKind.LOG,
        segment=segment,
        path=segment.path,
        position=position,
        offset=offset,
        detail=detail,
    )


def _batches(one: CheckedSegment) -> Iterator[int | _Batch]:
    """Yield each batch of a segment up to the first damaged one, and the numbers of bytes read."""
    file, end = one.segment.file, one.size_bytes
    piece, piece_start, position = memoryview(b""), 0, 0
    while position < end:
        if position + HEADER_SIZE > piece_start + len(piece):
            piece, piece_start = (
                memoryview(file.read_at(position, min(PIECE_BYTES, end - position))),
                position,
            )
            yield len(piece)
        at = position - piece_start
        if len(piece) - at < HEADER_SIZE:
            yield _Batch(position, None, None, f"{len(piece) - at} bytes are too short for a batch")
            return
        header = BatchHeader._make(HEADER.unpack_from(piece, at))
        detail = _malformed(header, end - position)
        if detail is not None:
            yield _Batch(position, header, None, detail)
            return
        crc, content, done = 0, b"", position + CRC_START
        batch_end = position + header.size_bytes
        while done < batch_end:
            if done >= piece_start + len(piece):
                size = min(PIECE_BYTES, end - done)
                piece, piece_start = memoryview(file.read_at(done, size)), done
                yield len(piece)
                if not piece:
                    break
            part = piece[done - piece_start : batch_end - piece_start]
            crc = crc32c(part, crc)
            if header.is_control and header.size_bytes <= MAX_CONTROL_BATCH_BYTES:
                content += part
            done += len(part)
        if crc != header.crc or done < batch_end:
            yield _Batch(position, header, None, "its CRC does not match")
            return
        head = HEADER.pack(*header)[:CRC_START]
        yield _Batch(position, header, head + content if content else None, None)
        position = batch_end


def _malformed(header: BatchHeader, left_bytes: int) -> str | None:
    if header.magic != MAGIC:
        return f"its batch format is {header.magic}, but only {MAGIC} is supported"
    if not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= left_bytes - LOG_OVERHEAD:
        return f"its header gives a size of {header.size_bytes} bytes, but {left_bytes} are left"
    if header.last_offset_delta < 0 or not 0 <= header.records_count <= header.last_offset_delta + 1:
        return (
            f"its header counts {header.records_count} records, but has "
            f"{header.last_offset_delta + 1} offsets"
        )
    return None


# ---- rebuilt indexes -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRepair:
    """The indexes of a closed segment, rebuilt from its batches and ready to be written."""

    segment: Segment
    rebuilt: Segment  # has the offset index and the time index in memory
    transactions: Sequence[AbortedTransaction] | None  # None: the index is right or its rows are unknown


def rebuilt_indexes(check: LogCheck, segment: Segment, index_interval_bytes: int) -> IndexRepair:
    """Rebuild the indexes of a closed segment whose batches are undamaged. Blocks."""
    return IndexRepair(
        segment=segment,
        rebuilt=segment.indexed_again(index_interval_bytes),
        transactions=check.known_transactions.get(segment.base_offset),
    )


def write_indexes(repair: IndexRepair, disk: Disk) -> None:
    """Replace the index files of the segment. Call this on the loop, so that no read meets half of them.

    The files are not flushed to disk: recovery rebuilds an index that a crash loses.
    """
    segment = repair.segment
    repair.rebuilt.write_indexes()
    if repair.transactions is not None:
        path = segment.transaction_index.path
        if repair.transactions:
            rows = [TRANSACTION_ROW.pack(VERSION, *row) for row in repair.transactions]
            disk.write_file(path, b"".join(rows), sync=False)
        else:
            disk.remove(path)
    segment.indexes_replaced()
