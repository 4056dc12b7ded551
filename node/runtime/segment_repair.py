"""Brings the batches of a damaged segment back from another replica that is in sync.

They are read as a consumer reads, from the leader or, where this node is it, from a follower: below the high
watermark all replicas in sync have the same bytes. What came is checked before it takes the damaged segment's
place, so this can only fail, not lose anything.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, cast

from logstore.disk import Disk
from logstore.errors import ErrorCode, KafkaError
from logstore.log_check import Damage, LogCheck
from logstore.partition_log import PartitionLog
from logstore.schema import Buffer
from logstore.segment_copy import SegmentCopy, begin_copy
from logstore.topic_partition import TopicPartition
from node.clock import Clock
from node.replica.partition import Partition
from node.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

FETCH_BYTES: Final = 1024 * 1024  # as a follower's replica.fetch.max.bytes
FETCH_TIMEOUT_S: Final = 30.0
R = TypeVar("R")


class Peer(Protocol):
    """The client side of a connection to another node."""

    async def request(self, message: object, response_type: type[R], *, timeout_s: float = ...) -> R: ...


class SegmentRepair:
    """Repairs segments for the scrub of a node."""

    def __init__(
        self,
        *,
        broker_id: int,
        disk: Disk,
        clock: Clock,
        find: Callable[[TopicPartition], Partition | None],
        connect: Callable[[int, str], Awaitable[Peer]],
    ) -> None:
        self._broker_id = broker_id
        self._disk = disk
        self._clock = clock
        self._find = find
        self._connect = connect

    async def repair(self, check: LogCheck, damage: Damage) -> str | None:
        """Replace the damaged segment by a whole one; None when that is done, else why it is not."""
        log, segment = check.log, damage.segment
        if check.is_compacted:
            # The other replica may have dropped tombstones of records that other segments here still have.
            return "the log is compacted, so that one segment alone cannot come from another replica"
        partition = self._find(log.topic_partition)
        if partition is None or partition.log is not log or not check.is_current:
            return "the log was cut or moved meanwhile"
        number = log.segments.index(segment)
        if log.segments[number + 1].base_offset > log.high_watermark:
            return "not all of its records are known to be replicated yet"
        if segment.base_offset < log.log_start_offset:
            return "its first records were deleted, so that other replicas may not have them"
        sources = self._sources(partition)
        if not sources:
            return "no other replica is in sync"
        reasons = []
        for source in sources:
            try:
                if await self._copy(partition, log, damage, source):
                    return None
                reasons.append("the log was cut or moved meanwhile")
            except KafkaError as error:
                reasons.append(f"node {source}: {error}")
            except OSError as error:  # the disk is full, perhaps: the log is as it was
                return f"the copy cannot be written: {error}"
        return "; ".join(reasons)

    def _sources(self, partition: Partition) -> list[int]:
        """The other replicas in sync, the leader first."""
        assignment = partition.assignment
        others = [one for one in assignment.in_sync_replicas if one != self._broker_id]
        return sorted(others, key=lambda one: (one != assignment.leader_id, one))

    async def _copy(self, partition: Partition, log: PartitionLog, damage: Damage, source: int) -> bool:
        copy = begin_copy(log, self._disk, damage.segment, now_ms=self._clock.now_ms())
        try:
            while not copy.is_complete:
                records = await self._fetch(partition, copy, source)
                await asyncio.to_thread(copy.add, records)
            await asyncio.to_thread(copy.finish)
            if partition.log is log and log.failure is None and copy.put_in_place():
                return True
        except BaseException:
            await asyncio.shield(asyncio.to_thread(copy.discard))
            raise
        await asyncio.to_thread(copy.discard)
        return False

    async def _fetch(self, partition: Partition, copy: SegmentCopy, source: int) -> Buffer:
        wanted = FetchPartition(
            partition=partition.topic_partition.partition,
            fetch_offset=copy.next_offset,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic_id=partition.topic_id, partitions=[wanted])],
        )
        peer = await self._connect(source, "repair")
        response = await peer.request(request, FetchResponse, timeout_s=FETCH_TIMEOUT_S)
        for topic in response.responses:
            for data in topic.partitions:
                if response.error_code or data.error_code:
                    raise KafkaError(ErrorCode(response.error_code or data.error_code), "it cannot be read")
                return bytes(cast(Buffer, data.records or b""))  # they outlive the buffer of the connection
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "it did not answer for the partition")
