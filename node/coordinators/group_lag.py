"""Measures how far groups are behind, in records and in time, in partitions led by any node of the cluster.

The lag in time is the age of the oldest record that the group has not committed, by the clock of the node
that leads the partition. This node reads it from the logs that it leads, and asks each other leader once for
all of its partitions. Partitions whose leader does not answer by the caller's deadline are left out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from ottla.logstore.disk import FileSlice
from ottla.logstore.log_reader import LATEST_TIMESTAMP, ColdRead, FetchIsolation
from ottla.logstore.oldest_record import Oldest, oldest_record
from ottla.logstore.record_batch import NO_TIMESTAMP
from ottla.logstore.words.errors import KafkaError, kept
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage
from ottla.node.clock import Clock
from ottla.node.net.peer_client import PeerClient
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.wire.messages.describe_lag import (
    DescribeLagRequest,
    DescribeLagResponse,
    LagPartition,
    LagPartitionResult,
    LagTopic,
    LagTopicResult,
)
from ottla.node.work.each_leader import ask_each_leader
from ottla.node.work.turns import Steps, take_turns

TIMEOUT_S: Final = (
    5.0  # for one measurement: some 50,000 partitions with lag, or a leader that does not answer
)
PEER_SHARE: Final = 0.8  # of the time left, for a peer, so that an answer that is a little late still counts
PURPOSE: Final = "lag"
# The first read of a log: most batches are smaller. If it has only markers, the next read is larger.
FIRST_READ_BYTES: Final = 32 * 1024
NEXT_READ_BYTES: Final = 1024 * 1024
READS_AT_ONCE: Final = 32  # in one step of the thread: a few ms
NO_OFFSET: Final = -1
MAX_LAG_MS: Final = 2**63 - 1
_NOTHING_LEFT: Final = Oldest(2**63 - 1)


class GroupOffset(NamedTuple):
    """The offset that a group has committed in a partition, None if it has committed nothing there."""

    partition: TopicPartition
    committed: int | None


class PartitionLag(NamedTuple):
    """The end of a log for consumers (its high watermark), and how far a group is behind it.

    `records` is a difference of offsets, as in Kafka, so it includes markers and compacted gaps; it is None
    without a committed offset. `lag_ms` is the age of the oldest record that is not committed, and 0 if none
    is left to read. It is None if there is no committed offset or no timestamp, or if the record could not be
    read in time.
    """

    log_end_offset: int
    records: int | None
    lag_ms: int | None


class _ReadPosition(NamedTuple):
    """The offset from which a group's first unread record is searched, and its partition."""

    partition: Partition
    offset: int


class GroupLag:
    """Measures the lag of groups. For the event loop only; it reads logs in a thread."""

    def __init__(
        self,
        *,
        node_id: int,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        connect: Callable[[int, str], Awaitable[PeerClient]],
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._image = image
        self._connect = connect
        self._in_thread = in_thread
        self._clock = clock
        self._thread_lock = asyncio.Lock()  # allows one step in a thread at a time, for all callers together

    async def measure(
        self, places: Iterable[GroupOffset], *, timeout_s: float = TIMEOUT_S
    ) -> dict[GroupOffset, PartitionLag]:
        """Return the lag of each place whose partition's leader answers in time; leave out the others."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        image = self._image()

        def leader_of(place: GroupOffset) -> int | None:
            found = image.topics.partition(place.partition)
            return None if found is None else found.leader

        return await ask_each_leader(
            places,
            leader_of=leader_of,
            node_id=self._node_id,
            here=partial(self._measure_here, deadline=deadline),
            there=partial(self._ask_peer, deadline=deadline),
            deadline=deadline,
        )

    # ---- partitions that this node leads ------------------------------------------------------------

    async def _measure_here(
        self, places: Iterable[GroupOffset], deadline: float
    ) -> dict[GroupOffset, PartitionLag]:
        lags: dict[GroupOffset, PartitionLag] = {}
        to_read = await take_turns(self._lags_by_offsets(places, lags))
        max_bytes = FIRST_READ_BYTES
        loop = asyncio.get_running_loop()
        while to_read:
            later: dict[GroupOffset, _ReadPosition] = {}
            rest = iter(to_read.items())
            while some := dict(islice(rest, READS_AT_ONCE)):
                if loop.time() >= deadline:
                    return lags
                async with self._thread_lock:
                    found = await self._find_oldest(some, max_bytes)
                for place, oldest in found.items():
                    if oldest.timestamp_ms is not None or oldest.offset >= lags[place].log_end_offset:
                        lags[place] = lags[place]._replace(lag_ms=self._age_ms(oldest))
                    elif oldest.offset > some[place].offset:  # else the log was truncated while it was read
                        later[place] = _ReadPosition(some[place].partition, oldest.offset)
            to_read, max_bytes = later, NEXT_READ_BYTES
        return lags

    def _lags_by_offsets(
        self, places: Iterable[GroupOffset], lags: dict[GroupOffset, PartitionLag]
    ) -> Steps[dict[GroupOffset, _ReadPosition]]:
        """Put the lags in records into `lags`, and return where to read to find the lags in time."""
        to_read: dict[GroupOffset, _ReadPosition] = {}
        for place in places:
            yield
            try:
                partition = self._replicas.partition(place.partition)
                partition.check_leader()
                at_end = partition.offset_for_timestamp(LATEST_TIMESTAMP, FetchIsolation.HIGH_WATERMARK)
            except KafkaError:
                continue  # this node is just becoming its leader, or no longer is
            assert at_end is not None
            if place.committed is None:
                lags[place] = PartitionLag(at_end.offset, None, None)
                continue
            records = max(at_end.offset - place.committed, 0)
            lags[place] = PartitionLag(at_end.offset, records, None if records else 0)
            if records:
                to_read[place] = _ReadPosition(partition, place.committed)
        return to_read

    async def _find_oldest(
        self, to_read: Mapping[GroupOffset, _ReadPosition], max_bytes: int
    ) -> dict[GroupOffset, Oldest]:
        """Return the first unread record of each log, searched in its next `max_bytes`.

        Logs that cannot be read are left out.
        """
        cold = [
            read
            for partition, offset in to_read.values()
            if (read := partition.log.cold_read(offset, FetchIsolation.HIGH_WATERMARK)) is not None
        ]
        if cold:
            await self._in_thread(partial(_read_indexes, cold))
        reads = {place: piece for place, one in to_read.items() if (piece := _next_read(one, max_bytes))}
        found: dict[GroupOffset, Oldest | KafkaError | OSError] = await self._in_thread(
            partial(_read_all, reads)
        )
        for place, one in found.items():
            if isinstance(one, OSError):
                to_read[place].partition.log.flush_failed(one)  # takes the log out of service
        return {place: one for place, one in found.items() if isinstance(one, Oldest)}

    def _age_ms(self, oldest: Oldest) -> int | None:
        if oldest.timestamp_ms is None:
            return 0  # only markers, or offsets that compaction removed: there is nothing left to read
        if oldest.timestamp_ms == NO_TIMESTAMP:
            return None
        return min(max(0, self._clock.now_ms() - oldest.timestamp_ms), MAX_LAG_MS)

    # ---- partitions that other nodes lead ------------------------------------------------------------

    async def _ask_peer(
        self, leader: int, places: Iterable[GroupOffset], deadline: float
    ) -> dict[GroupOffset, PartitionLag]:
        peer = await self._connect(leader, PURPOSE)
        left_s = (deadline - asyncio.get_running_loop().time()) * PEER_SHARE
        request = await take_turns(self._request_of(places, max(0, int(left_s * 1000))))
        return await take_turns(self._lags_of(await peer.request(request, DescribeLagResponse)))

    def _request_of(self, places: Iterable[GroupOffset], timeout_ms: int) -> Steps[DescribeLagRequest]:
        image = self._image()
        by_topic: dict[bytes, list[LagPartition]] = {}
        for place in places:
            yield
            topic = image.topics.by_name.get(place.partition.topic)
            if topic is not None:
                one = LagPartition(
                    partition_index=place.partition.partition,
                    committed_offset=NO_OFFSET if place.committed is None else place.committed,
                )
                by_topic.setdefault(topic.topic_id, []).append(one)
        topics = [LagTopic(topic_id=topic_id, partitions=ones) for topic_id, ones in by_topic.items()]
        return DescribeLagRequest(timeout_ms=timeout_ms, topics=topics)

    def _lags_of(self, response: DescribeLagResponse) -> Steps[dict[GroupOffset, PartitionLag]]:
        image = self._image()
        lags: dict[GroupOffset, PartitionLag] = {}
        for topic in response.topics:
            named = image.topics.by_id.get(topic.topic_id)
            if named is None:
                continue
            for one in topic.partitions:
                yield
                place = _place(named.name, one.partition_index, one.committed_offset)
                end, committed = one.log_end_offset, place.committed
                records = None if committed is None else max(end - committed, 0)
                lags[place] = PartitionLag(end, records, None if one.lag_ms < 0 else one.lag_ms)
        return lags

    async def answer_peer(self, request: DescribeLagRequest) -> DescribeLagResponse:
        """Answer another node with the lags in the partitions that this node leads."""
        image = self._image()
        timeout_s = min(max(request.timeout_ms / 1000, 0), TIMEOUT_S)
        named = [(topic, image.topics.by_id.get(topic.topic_id)) for topic in request.topics]
        places = [
            _place(found.name, one.partition_index, one.committed_offset)
            for topic, found in named
            if found is not None
            for one in topic.partitions
        ]
        lags = await self._measure_here(places, asyncio.get_running_loop().time() + timeout_s)
        by_topic: dict[str, list[LagPartitionResult]] = {}
        for place, lag in lags.items():
            result = LagPartitionResult(
                partition_index=place.partition.partition,
                committed_offset=NO_OFFSET if place.committed is None else place.committed,
                log_end_offset=lag.log_end_offset,
                lag_ms=-1 if lag.lag_ms is None else lag.lag_ms,
            )
            by_topic.setdefault(place.partition.topic, []).append(result)
        ids = {found.name: found.topic_id for _, found in named if found is not None}
        return DescribeLagResponse(
            topics=[LagTopicResult(topic_id=ids[name], partitions=ones) for name, ones in by_topic.items()]
        )


def _place(topic: str, partition: int, committed: int) -> GroupOffset:
    return GroupOffset(TopicPartition(topic, partition), None if committed < 0 else committed)


def _next_read(position: _ReadPosition, max_bytes: int) -> "tuple[FileSlice, int] | None":
    """Return the next bytes to read and the offset to start from, None if the log cannot be read there."""
    log = position.partition.log
    offset = max(position.offset, log.log_start_offset)  # retention may have deleted the next records
    try:
        found = log.read(offset, max_bytes, isolation=FetchIsolation.HIGH_WATERMARK, minimum_one_batch=True)
    except KafkaError:
        return None
    return found.slice, offset


def _read_indexes(reads: Iterable[ColdRead]) -> None:
    for one in reads:
        one.run()


def _read_all(
    reads: Mapping[GroupOffset, tuple[FileSlice, int]],
) -> dict[GroupOffset, Oldest | KafkaError | OSError]:
    return {place: _read(piece, offset) for place, (piece, offset) in reads.items()}


def _read(piece: FileSlice, offset: int) -> Oldest | KafkaError | OSError:
    try:
        return oldest_record(piece.read(), offset) if piece.size else _NOTHING_LEFT
    except (KafkaError, OSError) as error:
        return kept(error)
