"""Fetches a range of offsets of one partition: the next fetch is under way while this one is opened.

A range ends by position, never by a record: markers, aborted and compacted records fill its end as well. If a
leader or a connection is lost, the next leader is asked from the same position, so no row comes twice and
none is left out.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from ottla.logstore.record_batch import HEADER_SIZE
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.node.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.pipeline.client.answers import check, to_error
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.list_offsets import EARLIEST, LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.retries import is_retriable
from ottla.pipeline.columns.fetched_batches import KEY_AND_VALUE, Fetched, open_fetched

LAST_VERSION_WITH_TOPIC_NAMES: Final = 12
# Before the first answer the length of rows is unknown. A guess that is too low costs a second fetch, one
# that is too high costs bytes that the next micro-batch fetches again.
GUESSED_ROW_BYTES: Final = 1024
LEAST_FETCH_BYTES: Final = 64 * 1024
# A process may have metadata older than the split, and so may a node.
ATTEMPTS_BEFORE_REPLACED: Final = 4
MORE_THAN_LEFT: Final = 1.3  # rows of a range differ in length
# Errors that only the leader sends, so that the metadata is not stale.
_LEADER_ERRORS: Final = (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
_BATCH_START: Final = struct.Struct(">qi")  # base offset, length of the rest
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23


class OutOfRange(Exception):
    """An offset that the log no longer has, or not yet; it has those from `log_start` to `log_end`."""

    def __init__(self, partition: TopicPartition, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(partition, offset, log_start, log_end)
        self.partition = partition
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end

    def __str__(self) -> str:
        return f"{self.partition} has offsets {self.log_start} to {self.log_end}, but not {self.offset}"


class TopicReplaced(Exception):
    """The topic was deleted, and another one of that name was created."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return f"topic {self.topic} was deleted and created again"


class _InFlightFetch(NamedTuple):
    connection: BrokerConnection
    pending: PendingRequest
    position: int


class PartitionFetcher:
    """Reads ranges one after another. Abandoning a range costs the connection of the answer under way."""

    def __init__(
        self, cluster: Cluster, *, with_headers: bool, wanted: frozenset[str] = KEY_AND_VALUE
    ) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._with_headers = with_headers
        self._wanted = wanted
        self._in_flight: _InFlightFetch | None = None
        self._replaced_attempts = 0

    def batches(self, split: OffsetRange) -> Iterator[Fetched]:
        """Yield the visible records of a range, fetch by fetch.

        Raises OutOfRange if the log does not have the offsets, TopicGone, TopicReplaced, and KafkaError if
        all attempts failed for `default.api.timeout.ms` without a single row.
        """
        position = split.start
        self._replaced_attempts = 0
        known = self._cluster.row_bytes
        topic = split.partition.topic
        fetch_bytes = self._fetch_bytes(split, position, known.get(topic, GUESSED_ROW_BYTES))
        try:
            while position < split.end:
                answer = self._fetch(split, position, fetch_bytes)
                records = answer.records
                assert isinstance(records, bytes | bytearray | memoryview), "what is decoded is one buffer"
                if not records:
                    return
                following = _offset_after(records)
                if following > position:
                    row_bytes = known[topic] = len(records) / (following - position)
                    fetch_bytes = self._fetch_bytes(split, following, row_bytes)
                    if following < split.end:
                        self._prefetch(split, following, fetch_bytes)
                fetched = open_fetched(
                    records,
                    aborted=answer.aborted_transactions or (),
                    read_committed=self._settings.read_committed,
                    start=position,
                    end=split.end,
                    with_headers=self._with_headers,
                    wanted=self._wanted,
                )
                position = fetched.next_offset
                if fetched.columns is not None:
                    yield fetched
        finally:
            self._discard_in_flight()

    # ---- one fetch --------------------------------------------------------------------------------

    def _fetch(self, split: OffsetRange, position: int, fetch_bytes: int) -> PartitionData:
        """Return an answer with records from `position` on, or an empty one if the log has none there."""

        def attempt() -> PartitionData:
            if self._in_flight is not None and self._in_flight.position != position:
                # The records before were opened only in part, so the prefetched answer is beyond this
                # position.
                self._receive()
            if self._in_flight is None:
                self._in_flight = self._send_fetch(split, position, fetch_bytes)
            answer = self._partition_answer(split)
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise self._out_of_range(split.partition, position)
            check(answer.error_code, f"fetching {split.partition}")
            if not answer.records and not self._is_hole(split, answer):
                raise KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{split.partition} returns nothing from offset {position} on, although "
                    f"offsets up to {split.end} were expected; its high watermark is "
                    f"{answer.high_watermark}, its last stable offset {answer.last_stable_offset}",
                )
            return answer

        def between(error: KafkaError) -> None:
            self._discard_in_flight()
            if error.code not in _LEADER_ERRORS:
                self._cluster.forget_topic(split.partition.topic)

        return self._cluster.retry(attempt, again=is_retriable, between=between)

    def _is_hole(self, split: OffsetRange, answer: PartitionData) -> bool:
        """Return True if nothing is left of a range at the end of a log, as after compaction.

        Apache Kafka's answer is empty, too, while old segments are read from remote storage (KIP-405). The
        last segments are always local, so the last offset is asked for; no compacted topic has any elsewhere.
        """
        end = self._visible_end(answer)
        if end < split.end:
            return False
        self._in_flight = self._send_fetch(split, end - 1, 1)
        last = self._partition_answer(split)
        return not last.error_code and not last.records and self._visible_end(last) >= end

    def _visible_end(self, answer: PartitionData) -> int:
        is_committed = self._settings.read_committed
        return answer.last_stable_offset if is_committed else answer.high_watermark

    def _send_fetch(self, split: OffsetRange, position: int, fetch_bytes: int) -> _InFlightFetch:
        leader = self._cluster.leader(split.partition)
        topic_id = self._cluster.topic(split.partition.topic).topic_id
        if ZERO_UUID not in (split.topic_id, topic_id) and split.topic_id != topic_id:
            self._raise_replaced(split.partition)
        connection = self._cluster.connections.to(leader.node_id, Purpose.FETCH)
        request = FetchRequest(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=int(self._settings.read_committed),
            topics=[
                FetchTopic(
                    topic=split.partition.topic,
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=split.partition.partition,
                            current_leader_epoch=leader.epoch,
                            fetch_offset=position,
                            partition_max_bytes=fetch_bytes,
                        )
                    ],
                )
            ],
        )
        most = LAST_VERSION_WITH_TOPIC_NAMES if topic_id == ZERO_UUID else None
        return _InFlightFetch(connection, connection.send(request, most=most), position)

    def _raise_replaced(self, partition: TopicPartition) -> NoReturn:
        """Raise a retriable error, as metadata may be old here or at a node; after several, TopicReplaced."""
        self._replaced_attempts += 1
        self._cluster.forget_topic(partition.topic)
        if self._replaced_attempts < ATTEMPTS_BEFORE_REPLACED:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"the topic of {partition} was deleted and created again"
            )
        raise TopicReplaced(partition.topic)

    def _prefetch(self, split: OffsetRange, position: int, fetch_bytes: int) -> None:
        try:
            self._in_flight = self._send_fetch(split, position, fetch_bytes)
        except KafkaError:
            # It is asked again, with retries, when these rows are read.
            self._in_flight = None

    def _receive(self) -> FetchResponse:
        assert self._in_flight is not None
        in_flight, self._in_flight = self._in_flight, None
        try:
            response: FetchResponse = in_flight.connection.receive(in_flight.pending)
        except KafkaError:
            in_flight.connection.close()
            raise
        return response

    def _partition_answer(self, split: OffsetRange) -> PartitionData:
        response = self._receive()
        check(response.error_code, f"fetching {split.partition}")
        answers = [one for topic in response.responses for one in topic.partitions]
        if not answers and response.throttle_time_ms:
            # Apache Kafka's answer to a client over its quota; it answers the next request when the quota
            # allows.
            raise to_error(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"fetching {split.partition}")
        if len(answers) != 1 or answers[0].partition_index != split.partition.partition:
            problem = f"expected one answer, about {split.partition}, but got {len(answers)}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        return answers[0]

    def _out_of_range(self, partition: TopicPartition, position: int) -> OutOfRange:
        ends = {end: list_offsets(self._cluster, {partition: end})[partition] for end in (EARLIEST, LATEST)}
        return OutOfRange(partition, position, ends[EARLIEST], ends[LATEST])

    def _discard_in_flight(self) -> None:
        """Close the connection if an answer is under way: its next user must not receive it."""
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is not None:
            in_flight.connection.close()

    def _fetch_bytes(self, split: OffsetRange, position: int, row_bytes: float) -> int:
        left = max(split.end - position, 0) * row_bytes * MORE_THAN_LEFT
        return int(min(max(left, LEAST_FETCH_BYTES), self._settings.max_partition_fetch_bytes))


def _offset_after(records: Buffer) -> int:
    """Return the offset after the last whole batch, from its unproved header; -1 if there is none."""
    position, after = 0, -1
    while position + HEADER_SIZE <= len(records):
        base_offset, length = _BATCH_START.unpack_from(records, position)
        following = position + _BATCH_START.size + length
        if following > len(records) or following < position + HEADER_SIZE:
            break
        after = base_offset + _LAST_OFFSET_DELTA.unpack_from(records, position + _LAST_OFFSET_DELTA_AT)[0] + 1
        position = following
    return after
