"""Loads a shard of the group coordinator: the log is read and scanned in a thread, piece by piece.

The event loop only looks up where the next piece is. Python runs one thread at a time, so the thread that
scans gives way every millisecond or two; otherwise the loop would get its turn every 5 ms only, and
heartbeats of other shards would wait for it.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from groupcoord.offset_commands import StaleOffset
from groupcoord.offset_log_scan import LogScan, Unreadable
from groupcoord.shard import Shard
from groupcoord.shard_load import load_shard, stale_offsets
from logstore.disk import FileSlice
from logstore.errors import ErrorCode, KafkaError
from logstore.partition_log import FetchIsolation
from node.replica.partition import Partition

# One hop to the thread and back, a quarter of a millisecond, for some 10,000 records.
LOAD_BYTES = 1024 * 1024
# Threads at this work. More would only take turns with each other; two, so that one disk that does not answer
# keeps nothing else from being loaded.
MAX_LOADS = 2
# A sleep of no time at all would not do: the thread would have the interpreter back before the loop has woken
# up.
PAUSE_S = 0.000_05


class LoadEndedError(Exception):
    """The shard was closed while it was loaded."""


class LoadedShard(NamedTuple):
    """A shard as its log has it."""

    shard: Shard
    unreadable: Unreadable
    stale: list[StaleOffset]  # to be removed


class GroupLoader:
    """The loads of one node; at most `MAX_LOADS` at a time, the others wait."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_LOADS)

    async def load(
        self,
        partition: Partition,
        *,
        make_shard: Callable[[], Shard],
        topic_id_of: Callable[[str], bytes | None],
        is_closed: Callable[[], bool],
    ) -> LoadedShard:
        """The shard as the partition's log has it now. `make_shard` and `topic_id_of` are called in a thread.

        KafkaError if the log cannot be read; LoadEndedError soon after `is_closed` is true.
        """
        loop_thread = threading.get_ident()

        def pause() -> None:
            if is_closed():
                raise LoadEndedError
            if threading.get_ident() != loop_thread:
                time.sleep(PAUSE_S)

        async with self._slots:
            scan = await _scan(partition, pause)
            return await asyncio.to_thread(_make, scan, make_shard, topic_id_of, pause)


def _make(
    scan: LogScan,
    make_shard: Callable[[], Shard],
    topic_id_of: Callable[[str], bytes | None],
    pause: Callable[[], None],
) -> LoadedShard:
    scanned = scan.finish()
    shard = load_shard(scanned, make_shard(), pause=pause)
    return LoadedShard(shard, scanned.unreadable, stale_offsets(shard, topic_id_of, pause=pause))


async def _scan(partition: Partition, pause: Callable[[], None]) -> LogScan:
    scan = LogScan(pause)
    log = partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        pause()
        piece = log.read(offset, LOAD_BYTES, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
        next_offset = await asyncio.to_thread(_scan_piece, scan, piece.slice)
        if next_offset <= offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition} has no batch at offset {offset}"
            )
        offset = next_offset
    return scan


def _scan_piece(scan: LogScan, piece: FileSlice) -> int:
    try:
        content = piece.read()
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"it could not be read: {error}") from error
    return scan.feed(content)
