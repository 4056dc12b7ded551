"""Finds the times at which the records of a share fetch are due: few of them at once, others in a thread."""

from bisect import bisect_left
from typing import NamedTuple

from ottla.logstore.batch_validator import is_small_walk
from ottla.logstore.delivery_delay import DueTimes, delayed_records
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record_batch import COMPRESSION_MASK, read_header
from ottla.logstore.words.schema import Buffer
from ottla.node.share.read_batches import ReadBatches


class ReadDelays(NamedTuple):
    """The due times of the records from one offset to another; those that are due are left out."""

    first_offset: int
    last_offset: int
    due_times: list[DueTimes]


def read_delays(
    content: Buffer,
    batches: ReadBatches,
    from_offset: int,
    config: LogConfig,
    now_ms: int,
    max_records: int,
) -> ReadDelays:
    """Find the due times of the records of batches, from `from_offset` on.

    It ends when more than `max_records` are not due: a batch may have many millions.
    """
    view = memoryview(content)
    first = bisect_left(batches.last_offsets, from_offset)
    due_times: list[DueTimes] = []
    count = 0
    for index in range(first, len(batches.base_offsets)):
        batch = view[batches.positions[index] : batches.positions[index + 1]]
        for piece in delayed_records(read_header(batch), batch, config, now_ms):
            due_times.append(piece)
            count += len(piece.offsets) - bisect_left(piece.offsets, from_offset)
            if count > max_records:
                return ReadDelays(from_offset, piece.offsets[-1], due_times)
    return ReadDelays(from_offset, batches.last_offsets[-1], due_times)


def is_read_soon(content: Buffer, batches: ReadBatches, from_offset: int) -> bool:
    """Return True if `read_delays` takes a millisecond or two: few records, and none compressed."""
    first = bisect_left(batches.last_offsets, from_offset)
    count = 0
    for index in range(first, len(batches.base_offsets)):
        header = read_header(content, batches.positions[index])
        count += header.records_count
        if header.attributes & COMPRESSION_MASK:
            return False
    return is_small_walk(batches.size_bytes - batches.positions[first], count)
