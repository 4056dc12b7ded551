"""The copy of a log to another log directory, step by step, until it can replace the log (KIP-113).

step = next_step(log, future)        on the loop: the next range to read, None when the copy has caught up
content = step.read()                in a thread
future.append_as_follower(content)   on the loop

The directory of the log is deleted after the replacement. So the copy may replace the log only when it is as
durable as the log: when `is_durable` is True.
"""

from typing import Final

from ottla.logstore.disk import FileSlice
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.record_batch import HEADER_SIZE, read_header

# A megabyte is read in a millisecond or two, and appended in less.
COPY_STEP_BYTES: Final = 1 << 20


def next_step(log: PartitionLog, future: PartitionLog, *, now_ms: int) -> FileSlice | None:
    """Return the next bytes of `log` that `future` lacks; None if it has all of them.

    Records that `log` has lost meanwhile, at its start or (after a truncation) at its end, are first removed
    from `future`.
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
    """Return True if all records that are durable in `log` are durable in `future`."""
    return future.recovery_point >= log.recovery_point


def _first_offset(log: PartitionLog) -> int:
    """Return the first offset of a copy of `log`, as DeleteRecords may move the log start into a batch."""
    start = log.log_start_offset
    if start >= log.log_end_offset:
        return start
    piece = log.read(start, HEADER_SIZE, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice
    header = piece._replace(size=HEADER_SIZE).read()
    return min(start, read_header(header).base_offset) if len(header) == HEADER_SIZE else start
