"""Finds the offset at which a share group starts a partition, by `share.auto.offset.reset`."""

import asyncio
from typing import Final

from ottla.logstore.log_reader import LATEST_TIMESTAMP, FetchIsolation, SegmentsChanged
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.clock import Clock
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.replica.partition import Partition
from ottla.node.share.share_group_settings import ShareGroupConfigs
from ottla.node.work.fair_pool import FairPool

# A new leader learns the high watermark within some round trips.
END_OFFSET_TRIES: Final = 40
END_OFFSET_PAUSE_S: Final = 0.05
# Searches by time that fail because segments are deleted meanwhile.
MAX_SEARCHES: Final = 10


class InitialOffsets:
    """Finds the offset in the log of the leader; a search by time runs in a thread."""

    def __init__(self, *, settings: ShareGroupConfigs, clock: Clock, time_pool: FairPool) -> None:
        self._settings = settings
        self._clock = clock
        self._time_pool = time_pool

    async def __call__(self, partition: Partition, group: str, connection: ConnectionInfo, /) -> int:
        """Return the offset; raise KafkaError if this node no longer leads, or does not know it yet."""
        reset = self._settings(group).offset_reset
        if reset.is_earliest:
            partition.check_leader()
            return partition.log.log_start_offset
        if reset.duration_ms is not None:
            found = await self._at(partition, self._clock.now_ms() - reset.duration_ms, connection)
            if found is not None:
                return found
        for _ in range(END_OFFSET_TRIES):
            partition.check_leader()
            try:
                end = partition.offset_for_timestamp(LATEST_TIMESTAMP, FetchIsolation.HIGH_WATERMARK)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_NOT_AVAILABLE:
                    raise
                await asyncio.sleep(END_OFFSET_PAUSE_S)
                continue
            assert end is not None, "every log has an end"
            return end.offset
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

    async def _at(self, partition: Partition, timestamp: int, connection: ConnectionInfo) -> int | None:
        """Return the offset of the first committed record that is not older, None if all are older."""
        for _ in range(MAX_SEARCHES):
            partition.check_leader()
            search = partition.log.time_search(max(timestamp, 0))
            try:
                found = await self._time_pool.submit(connection, search.run, outlives_client=True)
            except SegmentsChanged:
                continue
            except OSError as error:
                raise partition.log.flush_failed(error) from error
            partition.check_leader()
            if found is None or found.offset >= partition.end_offset(FetchIsolation.HIGH_WATERMARK):
                return None
            return found.offset
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
