"""Loads shards of the coordinators: reads and scans a log in a thread, piece by piece.

The event loop only looks up the position of the next piece. Python runs one thread at a time, so the scanning
thread pauses every millisecond or two. Otherwise the loop would run only every 5 ms, and heartbeats of other
shards would wait for it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from ottla.groupcoord.log_scan import LogScan, Unreadable
from ottla.logstore.disk import FileSlice
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica.partition import Partition

# The bytes of a piece, some 10,000 records; going to the thread and back takes a quarter of a millisecond.
LOAD_BYTES = 1024 * 1024
# Loads at the same time. More threads would only take turns with each other; with two, a disk that does not
# answer does not keep other shards from being loaded.
MAX_LOADS = 2
# Not 0: the thread would have the interpreter back before the loop has woken up.
PAUSE_S = 0.000_05


log = logging.getLogger(__name__)


class LoadEndedError(Exception):
    """The shard was closed while it was loaded."""


Pause: TypeAlias = Callable[[], None]
S = TypeVar("S", bound=LogScan)
R = TypeVar("R")


class ShardLoader:
    """Loads the shards of one coordinator, at most `MAX_LOADS` at a time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_LOADS)

    async def load(
        self,
        partition: Partition,
        *,
        new_scan: Callable[[Pause], S],
        make: Callable[[S, Pause], R],
        is_closed: Callable[[], bool],
    ) -> R:
        """Scan the whole log of the partition, and return the result of `make` for the scan.

        Reading, scanning and `make` happen in threads. Raises KafkaError if the log cannot be read, and
        LoadEndedError soon after `is_closed` is true.
        """
        loop_thread = threading.get_ident()

        def pause() -> None:
            if is_closed():
                raise LoadEndedError
            if threading.get_ident() != loop_thread:
                time.sleep(PAUSE_S)

        async with self._slots:
            scan = new_scan(pause)
            await _scan(partition, scan, pause)
            return await asyncio.to_thread(make, scan, pause)


async def _scan(partition: Partition, scan: LogScan, pause: Pause) -> None:
    log_ = partition.log
    offset = log_.log_start_offset
    while offset < log_.log_end_offset:
        pause()
        piece = log_.read(offset, LOAD_BYTES, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
        next_offset = await asyncio.to_thread(_scan_piece, scan, piece.slice)
        if next_offset <= offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition} has no batch at offset {offset}"
            )
        offset = next_offset


def _scan_piece(scan: LogScan, piece: FileSlice) -> int:
    try:
        content = piece.read()
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"its log could not be read: {error}") from error
    return scan.feed(content)


def log_left_out(partition: Partition, unreadable: Unreadable) -> None:
    """Log the records that a load could not read: the coordinator goes on without them."""
    for problem in unreadable.first:
        log.error("%s: a record was skipped: %s", partition.topic_partition, problem)
    if unreadable.count > len(unreadable.first):
        log.error("%s: %d records in all were skipped.", partition.topic_partition, unreadable.count)
