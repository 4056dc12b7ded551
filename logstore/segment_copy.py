"""Segments whose batches come again from another replica: written beside the damaged ones, checked, and put
in their place.

Of a log that was never compacted the damaged segment alone is copied, and every offset must come. Of a
compacted log all closed segments are copied together: the other replica may have dropped a tombstone and the
records that it deletes, and both must go here. The old files stay until all new ones are whole and on the
disk; a crash at any point leaves the one or the other, as with compaction. Offsets, epochs and high watermark
of the log stay what they are.
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
    end_offset: int  # where the next segment begins
    new: Segment
    next_offset: int
    config: LogConfig
    has_gaps: bool  # whether offsets may be missing, as in a compacted log
    producers: ProducerState  # what the copies before this one and its own batches say
    is_empty: bool = True

    @property
    def is_complete(self) -> bool:
        """Return whether all batches are there."""
        return self.next_offset >= self.end_offset

    def add(self, records: ByteSource, *, high_watermark: int = -1) -> None:
        """Write the batches that come next, up to the end of the segment.

        `high_watermark` is how far the other replica serves: where it sends nothing below, there is nothing.
        CORRUPT_MESSAGE when the batches are not whole, or not those: nothing of `records` is written then.
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
            return header.last_offset >= expected  # the log start lies in it
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
        """Make the copy durable and read it back; CORRUPT_MESSAGE when it is not as the log has to be."""
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
            is_compacted=True,  # its transactions are judged when it is one of the log's segments
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
            # It is damaged too: the next check of the log finds what is missing, and writes it.
            self.new.transaction_index.reset()

    def discard(self) -> None:
        """Remove what was written; what cannot be removed now goes at the next start."""
        try:
            self.new.remove()
        except OSError:
            pass


@dataclass(slots=True, kw_only=True)
class LogCopy:
    """The copies of neighbouring closed segments of a log, made one after the other."""

    log: PartitionLog
    disk: Disk
    old: Sequence[Segment]
    end_offset: int
    has_gaps: bool
    cuts: int
    copies: list[SegmentCopy] = field(default_factory=list)
    _producers: ProducerState = field(default_factory=ProducerState)

    def begin_next(self, *, now_ms: int) -> SegmentCopy | None:
        """Return the copy of the next segment, with nothing in it yet; None when there is one of each."""
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
        """Replace the old segments, on the loop; False when the log does not have them any more."""
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
        """Remove what was written."""
        for copy in self.copies:
            copy.discard()


def begin_copy(log: PartitionLog, disk: Disk, old: Sequence[Segment], *, has_gaps: bool = False) -> LogCopy:
    """Return the copy of these neighbouring closed segments, with nothing in it yet."""
    first = next(number for number, one in enumerate(log.segments) if one is old[0])
    return LogCopy(
        log=log,
        disk=disk,
        old=tuple(old),
        end_offset=log.segments[first + len(old)].base_offset,
        has_gaps=has_gaps,
        cuts=log.cuts,
    )
