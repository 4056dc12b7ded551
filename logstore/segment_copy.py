"""Copies of damaged segments from another replica: written beside the old files, checked, then put in place.

In a log that was never compacted only the damaged segment is copied, and every offset must be received. In a
compacted log all closed segments are copied together: the other replica may have dropped a tombstone and the
records that it deletes, and both must be dropped here. The old files stay until all new ones are complete and
durable; a crash at any point leaves the old ones or the new ones, as with compaction. Offsets, epochs and
high watermark of the log do not change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.logstore.disk import Disk
from ottla.logstore.log_check import CheckedSegment, LogCheck
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.producer_state import ProducerState
from ottla.logstore.record_batch import BatchHeader, check_batch, iterate_headers
from ottla.logstore.recovery import apply_to_producers
from ottla.logstore.segment import CLEANED_SUFFIX, Segment
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource


@dataclass(slots=True, kw_only=True)
class SegmentCopy:
    """The copy of one closed segment. `add` and `finish` block."""

    log: PartitionLog
    disk: Disk
    old: Segment
    end_offset: int  # the base offset of the next segment
    new: Segment
    next_offset: int
    config: LogConfig
    has_gaps: bool  # offsets may be missing, as in a compacted log
    producers: ProducerState  # the state after the batches of the earlier copies and of this one
    is_empty: bool = True

    @property
    def is_complete(self) -> bool:
        """True if all batches were received."""
        return self.next_offset >= self.end_offset

    def add(self, records: ByteSource, *, high_watermark: int = -1) -> None:
        """Append the next batches, up to the end of the segment.

        `high_watermark` is the offset up to which the other replica serves: if it has no batch below, there
        is none. CORRUPT_MESSAGE if the batches are damaged or do not continue the copy; then nothing of
        `records` is written.
        """
        view = memoryview(records)
        rows: list[tuple[int, BatchHeader]] = []
        expected, end, is_end = self.next_offset, 0, False
        for position, unchecked in iterate_headers(view):
            if unchecked.base_offset >= self.end_offset:
                is_end = self.has_gaps and unchecked.base_offset >= expected
                break
            header = check_batch(view, position)
            if not self._continues(header, expected, is_first=self.is_empty and not rows):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"A batch with offsets {header.base_offset} to "
                    f"{header.last_offset} was received, but offset {expected} was "
                    f"expected, in a segment that ends at {self.end_offset}.",
                )
            rows.append((position, header))
            expected, end = header.next_offset, position + header.size_bytes
        if not view and self.has_gaps and high_watermark >= self.end_offset:
            is_end = True
        if not rows and not is_end:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"No whole batch was received for offset {self.next_offset}."
            )
        if rows:
            self._write(view[:end], rows)
        self.next_offset = self.end_offset if is_end else expected

    def _continues(self, header: BatchHeader, expected: int, *, is_first: bool) -> bool:
        if header.next_offset > self.end_offset:
            return False
        if is_first and self.old.base_offset <= header.base_offset < expected:
            return header.last_offset >= expected  # the batch contains the log start offset
        return header.base_offset >= expected if self.has_gaps else header.base_offset == expected

    def _write(self, view: memoryview, rows: Sequence[tuple[int, BatchHeader]]) -> None:
        start = self.new.size_bytes
        self.new.append([view], len(view))
        self.is_empty = False
        for position, header in rows:
            self.new.index_batch(
                header.last_offset, header.max_timestamp, start + position, self.config.index_interval_bytes
            )
            if self.has_gaps and header.has_producer_id:
                batch = bytes(view[position : position + header.size_bytes]) if header.is_control else None
                aborted = apply_to_producers(self.producers, header, batch, 0)
                if aborted is not None:
                    self.new.transaction_index.append(aborted)

    def finish(self) -> None:
        """Make the copy durable and check it; CORRUPT_MESSAGE if it is not a valid segment of the log."""
        assert self.is_complete, (self.next_offset, self.end_offset)
        if not self.has_gaps:
            self._keep_transactions()
        self.new.seal()
        self.new.sync()
        self.disk.sync_directory(self.log.directory)
        check = LogCheck(
            log=self.log,
            disk=self.disk,
            segments=[CheckedSegment(self.new, self.new.size_bytes, self.end_offset, is_active=False)],
            all_segments=(),
            cuts=self.log.cuts,
            epochs=self.log.epoch_entries,
            is_compacted=True,  # its transactions are checked once it is part of the log
        )
        for _ in check.steps():
            pass
        wrong = [one for one in check.findings if one.path != self.new.transaction_index.path]
        if wrong:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(wrong[0]))

    def _keep_transactions(self) -> None:
        try:
            for row in self.old.transaction_index.rows:
                self.new.transaction_index.append(row)
        except (KafkaError, AssertionError):
            # The old index is damaged, too: the next check of the log finds and writes the missing rows.
            self.new.transaction_index.reset()

    def discard(self) -> None:
        """Remove the files of the copy; recovery removes any that cannot be removed now."""
        try:
            self.new.remove()
        except OSError:
            pass


@dataclass(slots=True, kw_only=True)
class LogCopy:
    """The copies of adjacent closed segments of a log, made one after the other."""

    log: PartitionLog
    disk: Disk
    old: Sequence[Segment]
    end_offset: int
    has_gaps: bool
    cuts: int
    copies: list[SegmentCopy] = field(default_factory=list)
    _producers: ProducerState = field(default_factory=ProducerState)

    def begin_next(self, *, now_ms: int) -> SegmentCopy | None:
        """Return the empty copy of the next segment; None if all segments have one."""
        number = len(self.copies)
        if number == len(self.old):
            return None
        old = self.old[number]
        is_last = number + 1 == len(self.old)
        config = self.log.config
        copy = SegmentCopy(
            log=self.log,
            disk=self.disk,
            old=old,
            end_offset=self.end_offset if is_last else self.old[number + 1].base_offset,
            new=Segment.create(
                self.disk, self.log.directory, old.base_offset, config, now_ms=now_ms, suffix=CLEANED_SUFFIX
            ),
            next_offset=max(old.base_offset, self.log.log_start_offset),
            config=config,
            has_gaps=self.has_gaps,
            producers=self._producers,
        )
        self.copies.append(copy)
        return copy

    def put_in_place(self) -> bool:
        """Replace the old segments, on the loop; return False if the log no longer has them."""
        assert len(self.copies) == len(self.old) and all(copy.is_complete for copy in self.copies)
        row, count = self.log.segments, len(self.old)
        first = next((number for number, one in enumerate(row) if one is self.old[0]), None)
        if self.log.cuts != self.cuts or first is None or first + count >= len(row):
            return False
        are_there = all(one is old for one, old in zip(row[first:], self.old, strict=False))
        if not are_there or row[first + count].base_offset != self.end_offset:
            return False
        self.log.replace_segments([copy.new for copy in self.copies], list(self.old))
        return True

    def discard(self) -> None:
        """Remove the files of all copies."""
        for copy in self.copies:
            copy.discard()


def begin_copy(log: PartitionLog, disk: Disk, old: Sequence[Segment], *, has_gaps: bool = False) -> LogCopy:
    """Return a new, empty copy of these adjacent closed segments."""
    first = next(number for number, one in enumerate(log.segments) if one is old[0])
    return LogCopy(
        log=log,
        disk=disk,
        old=tuple(old),
        end_offset=log.segments[first + len(old)].base_offset,
        has_gaps=has_gaps,
        cuts=log.cuts,
    )
