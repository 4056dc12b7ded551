"""Copying a log to another log directory, step by step, until the copy can take its place (KIP-113).

step = next_step(log, future)        on the loop: what to read next, None when the copy has caught up
content = step.read()                in a thread
future.append_as_follower(content)   on the loop
"""

from typing import Final

from logstore.disk import FileSlice
from logstore.partition_log import FetchIsolation, PartitionLog

# A megabyte is read in a millisecond or two, and appended in less.
COPY_STEP_BYTES: Final = 1 << 20


def next_step(log: PartitionLog, future: PartitionLog, *, now_ms: int) -> FileSlice | None:
    """The bytes of `log` that `future` lacks next; None when it has all of them.

    What `log` has lost meanwhile, at its start or (a follower that was cut) at its end, `future` loses first.
    """
    if future.log_end_offset < log.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset, now_ms=now_ms)
    common = log.end_offset_for_epoch(future.latest_epoch).end_offset if future.latest_epoch >= 0 else -1
    end = log.log_end_offset if common < 0 else min(common, log.log_end_offset)
    if future.log_end_offset > end:
        future.truncate_to(end, now_ms=now_ms)
    future.update_high_watermark(log.high_watermark)
    if log.log_start_offset > future.log_start_offset and log.log_start_offset <= future.high_watermark:
        future.increment_log_start_offset(log.log_start_offset)
    if future.log_end_offset >= log.log_end_offset:
        return None
    return log.read(
        future.log_end_offset, COPY_STEP_BYTES, isolation=FetchIsolation.LOG_END, minimum_one_batch=True
    ).slice
