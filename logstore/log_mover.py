"""Copying a log to another log directory, step by step, until the copy can take its place (KIP-113).

step = next_step(log, future)        on the loop: what to read next, None when the copy has caught up
content = step.read()                in a thread
future.append_as_follower(content)   on the loop

The log's directory goes once the copy is in its place, so what was durable there is made durable here first:
`is_durable` says whether it is.
"""

from typing import Final

from ottla.logstore.disk import FileSlice
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.record_batch import HEADER_SIZE, read_header

# A megabyte is read in a millisecond or two, and appended in less.
COPY_STEP_BYTES: Final = 1 << 20


def next_step(log: PartitionLog, future: PartitionLog, *, now_ms: int) -> FileSlice | None:
    """The bytes of `log` that `future` lacks next; None when it has all of them.

    What `log` has lost meanwhile, at its start or (a follower that was cut) at its end, `future` loses first.
    """
    if not future.size_bytes or future.log_end_offset < log.log_start_offset:
        start = _first_offset(log)
        if future.log_end_offset < start or (future.log_end_offset > start and not future.size_bytes):
            future.truncate_fully_and_start_at(start, now_ms=now_ms)
    common = log.end_offset_for_epoch(future.latest_epoch).end_offset if future.latest_epoch >= 0 else -1
    end = log.log_end_offset if common < 0 else min(common, log.log_end_offset)
    if future.log_end_offset > end:
        future.truncate_to(end, now_ms=now_ms)
    future.update_high_watermark(log.high_watermark)
    if log.log_start_offset > future.log_start_offset and log.log_start_offset <= future.high_watermark:
        future.increment_log_start_offset(log.log_start_offset)
    if future.log_end_offset >= log.log_end_offset:
        return None
    offset = max(future.log_end_offset, log.log_start_offset)
    return log.read(offset, COPY_STEP_BYTES, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice


def is_durable(log: PartitionLog, future: PartitionLog) -> bool:
    """Whether a power cut could take nothing from `future` that it could not take from `log`."""
    return future.recovery_point >= log.recovery_point


def _first_offset(log: PartitionLog) -> int:
    """Where a copy of `log` begins: DeleteRecords may put the log start into the middle of a batch."""
    start = log.log_start_offset
    if start >= log.log_end_offset:
        return start
    piece = log.read(start, HEADER_SIZE, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice
    header = piece._replace(size=HEADER_SIZE).read()
    return min(start, read_header(header).base_offset) if len(header) == HEADER_SIZE else start
