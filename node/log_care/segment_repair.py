"""Restores the batches of damaged segments from another replica.

It fetches like a consumer: below the high watermark all replicas have the same bytes or, in a compacted log,
the same last record of each key. It tries the leader first, then replicas in the ISR, then the others, since
all batches below their high watermark are committed, too. A copy is verified before it replaces a damaged
segment, so a repair can fail, but cannot lose records.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from ottla.logstore.disk import Disk
from ottla.logstore.log_check import Damage, LogCheck
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.record_batch import BatchHeader, iterate_headers
from ottla.logstore.segment import Segment
from ottla.logstore.segment_copy import SegmentCopy, begin_copy
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.clock import Clock
from ottla.node.replica.partition import Partition
from ottla.node.replica.replication_quota import ReplicationQuotas
from ottla.node.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

FETCH_BYTES: Final = 1024 * 1024  # like the default of replica.fetch.max.bytes
FETCH_TIMEOUT_S: Final = 30.0
THROTTLED_PAUSE_S: Final = 0.1  # like a follower beyond its quota
R = TypeVar("R")


class Peer(Protocol):
    """The client side of a connection to another node."""

    async def request(self, message: object, response_type: type[R], *, timeout_s: float = ...) -> R: ...


class Outcome(Enum):
    """The outcome of a repair without an error."""

    REPAIRED = "repaired"
    CHANGED = "the log has changed in the meantime"


class _Answer(NamedTuple):
    records: Buffer
    high_watermark: int


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
        quotas: ReplicationQuotas | None = None,
        bytes_per_second: Callable[[], float] = lambda: float("inf"),
        refilling: Callable[[PartitionLog, int], AbstractAsyncContextManager[None]] = lambda _, __: (
            nullcontext()
        ),
    ) -> None:
        """`bytes_per_second` returns the limit of the rate of copying; replication quotas of followers apply,
        too. `refilling` keeps the cleaner away from a log while its closed segments, up to an offset, are
        replaced.
        """
        self._broker_id = broker_id
        self._disk = disk
        self._clock = clock
        self._find = find
        self._connect = connect
        self._quotas = quotas
        self._bytes_per_second = bytes_per_second
        self._refilling = refilling

    async def repair(self, check: LogCheck, damage: Damage) -> Outcome | str:
        """Replace the damaged segment, or all closed segments of a compacted log; else return the reason."""
        log = check.log
        partition = self._find(log.topic_partition)
        if partition is None or partition.log is not log or not check.is_current:
            return Outcome.CHANGED
        old = _to_copy(check, damage)
        if not old:
            return "some of its records may not be replicated yet"
        sources = self._sources(partition)
        if not sources:
            return "there is no other replica"
        reasons = []
        for source in sources:
            try:
                if await self._copy(partition, log, old, source, has_gaps=check.is_compacted):
                    return Outcome.REPAIRED
                return Outcome.CHANGED
            except KafkaError as error:
                reasons.append(f"node {source}: {error}")
            except OSError as error:  # such as a full disk; the log is unchanged
                return f"the copy cannot be written: {error}"
        return "; ".join(reasons)

    async def is_hole_elsewhere(self, check: LogCheck, damage: Damage) -> bool:
        """Return True if another replica in the ISR has no records in this gap, either.

        Then no record is missing: the topic was once compacted, and this replica was made later.
        """
        end_offset = next(one.end_offset for one in check.segments if one.segment is damage.segment)
        found = await self._batch_elsewhere(check, damage)
        return found is not None and found.base_offset >= end_offset

    async def is_same_elsewhere(self, check: LogCheck, damage: Damage) -> bool:
        """Return True if another replica in the ISR has the same batch there, leader epoch included."""
        found = await self._batch_elsewhere(check, damage)
        return found is not None and found == damage.segment.header_at(damage.position)

    async def _batch_elsewhere(self, check: LogCheck, damage: Damage) -> BatchHeader | None:
        """Return the first batch from the damage on in another replica of the ISR; None if none answers."""
        partition = self._find(check.log.topic_partition)
        if partition is None or partition.log is not check.log:
            return None
        for source in self._sources(partition):
            if source not in partition.assignment.in_sync_replicas:
                continue
            try:
                answer = await self._fetch(partition, damage.offset, source)
                return next((header for _, header in iterate_headers(answer.records)), None)
            except KafkaError:
                continue
        return None

    def _sources(self, partition: Partition) -> list[int]:
        """Return the other replicas: the leader, then the rest of the ISR, then the others."""
        assignment = partition.assignment
        others = [one for one in assignment.replicas if one != self._broker_id]
        in_sync = assignment.in_sync_replicas
        return sorted(others, key=lambda one: (one != assignment.leader_id, one not in in_sync, one))

    async def _copy(
        self,
        partition: Partition,
        log: PartitionLog,
        old: Sequence[Segment],
        source: int,
        *,
        has_gaps: bool,
    ) -> bool:
        copy = begin_copy(log, self._disk, old, has_gaps=has_gaps)
        guard = self._refilling(log, copy.end_offset) if has_gaps else nullcontext()
        try:
            while (segment := copy.begin_next(now_ms=self._clock.now_ms())) is not None:
                await self._fill(partition, segment, source)
                await asyncio.to_thread(segment.finish)
            async with guard:
                if partition.log is log and log.failure is None and copy.put_in_place():
                    return True
        except BaseException:
            await asyncio.shield(asyncio.to_thread(copy.discard))
            raise
        await asyncio.to_thread(copy.discard)
        return False

    async def _fill(self, partition: Partition, copy: SegmentCopy, source: int) -> None:
        now = asyncio.get_running_loop().time
        while not copy.is_complete:
            while self._must_wait(partition):
                await asyncio.sleep(THROTTLED_PAUSE_S)
            began = now()
            answer = await self._fetch(partition, copy.next_offset, source)
            size_bytes = len(answer.records)
            if self._quotas is not None:
                self._quotas.follower_received(partition, size_bytes, now_ms=int(now() * 1000))
            await asyncio.to_thread(copy.add, answer.records, high_watermark=answer.high_watermark)
            await asyncio.sleep(max(0.0, began + size_bytes / self._bytes_per_second() - now()))

    def _must_wait(self, partition: Partition) -> bool:
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        quotas = self._quotas
        return quotas is not None and quotas.follower_must_wait(partition, is_in_sync=False, now_ms=now_ms)

    async def _fetch(self, partition: Partition, offset: int, source: int) -> _Answer:
        wanted = FetchPartition(
            partition=partition.topic_partition.partition,
            fetch_offset=offset,
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
                # Copied, since the records outlive the receive buffer of the connection.
                return _Answer(bytes(cast(Buffer, data.records or b"")), data.high_watermark)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "it did not return the partition")


def _to_copy(check: LogCheck, damage: Damage) -> list[Segment]:
    """Return the segments to replace, or none while other replicas may not have all of their records."""
    log = check.log
    closed = [
        (segment, following.base_offset)
        for segment, following in zip(log.segments, log.segments[1:], strict=False)
        if log.log_start_offset < following.base_offset <= log.high_watermark
    ]
    if not check.is_compacted:
        return [segment for segment, _ in closed if segment is damage.segment]
    # Below its cleaned offset this replica may have dropped a tombstone. A copy that ends before it could
    # bring back the record that it deleted.
    needed_end = min(check.compacted_to, log.active_segment.base_offset)
    is_enough = bool(closed) and closed[-1][1] >= needed_end
    segments = [segment for segment, _ in closed]
    return segments if is_enough and any(one is damage.segment for one in segments) else []
