"""A segment whose batches come again from another replica: written beside the damaged one, checked, and put
in its place.

The old files stay until the new ones are whole and on the disk; a crash at any point leaves the one or the
other, as with compaction. Offsets, epochs and high watermark of the log stay what they are.
"""

from dataclasses import dataclass

from logstore.disk import Disk
from logstore.errors import ErrorCode, KafkaError
from logstore.log_check import CheckedSegment, LogCheck
from logstore.log_config import LogConfig
from logstore.partition_log import PartitionLog
from logstore.record_batch import BatchHeader, check_batch, iterate_headers
from logstore.segment import CLEANED_SUFFIX, Segment
from logstore.varint import ByteSource


@dataclass(slots=True, kw_only=True)
class SegmentCopy:
    """The copy of one closed segment of a log that is not compacted. `add` and `finish` block."""

    log: PartitionLog
    disk: Disk
    old: Segment
    end_offset: int  # where the next segment begins
    new: Segment
    next_offset: int
    config: LogConfig
    cuts: int

    @property
    def is_complete(self) -> bool:
        """Return whether all batches are there."""
        return self.next_offset == self.end_offset

    def add(self, records: ByteSource) -> None:
        """Write the batches that come next, up to the end of the segment.

        CORRUPT_MESSAGE when they are not whole, or not those: nothing of `records` is written then.
        """
        view = memoryview(records)
        rows: list[tuple[int, BatchHeader]] = []
        expected, end = self.next_offset, 0
        for position, unchecked in iterate_headers(view):
            if unchecked.base_offset >= self.end_offset:
                break
            header = check_batch(view, position)
            if header.base_offset != expected or header.next_offset > self.end_offset:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"A batch from {header.base_offset} to {header.last_offset} came where {expected} was"
                    f" to come, in a segment that ends at {self.end_offset}.",
                )
            rows.append((position, header))
            expected, end = header.next_offset, position + header.size_bytes
        if not rows:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"No whole batch came for offset {self.next_offset}.")
        start = self.new.size_bytes
        self.new.append([view[:end]], end)
        for position, header in rows:
            self.new.index_batch(
                header.last_offset, header.max_timestamp, start + position, self.config.index_interval_bytes
            )
        self.next_offset = expected

    def finish(self) -> None:
        """Make the copy durable and read it back; CORRUPT_MESSAGE when it is not as the log has to be."""
        assert self.is_complete, (self.next_offset, self.end_offset)
        try:
            for row in self.old.transaction_index.rows:
                self.new.transaction_index.append(row)
        except (KafkaError, AssertionError):
            # It is damaged too: the next check of the log finds what is missing, and writes it.
            self.new.transaction_index.reset()
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

    def put_in_place(self) -> bool:
        """Replace the damaged segment, on the loop; False when the log does not have it any more."""
        row = self.log.segments
        number = next((number for number, one in enumerate(row) if one is self.old), None)
        if self.log.cuts != self.cuts or number is None or number + 1 >= len(row):
            return False
        if row[number + 1].base_offset != self.end_offset:
            return False
        self.log.replace_segments([self.new], [self.old])
        return True

    def discard(self) -> None:
        """Remove what was written; what cannot be removed now goes at the next start."""
        try:
            self.new.remove()
        except OSError:
            pass


def begin_copy(log: PartitionLog, disk: Disk, damaged: Segment, *, now_ms: int) -> SegmentCopy:
    """The copy of a closed segment that is in the log, with nothing in it yet."""
    number = next(number for number, one in enumerate(log.segments) if one is damaged)
    new = Segment.create(
        disk, log.directory, damaged.base_offset, log.config, now_ms=now_ms, suffix=CLEANED_SUFFIX
    )
    return SegmentCopy(
        log=log,
        disk=disk,
        old=damaged,
        end_offset=log.segments[number + 1].base_offset,
        new=new,
        next_offset=damaged.base_offset,
        config=log.config,
        cuts=log.cuts,
    )
