"""The producer of `ottla produce`: records are collected in batches, and batches are sent to leaders.

Records are collected per partition while earlier ones are being sent; then all batches of one leader go in
one request. With `idempotent` (the default, as in Kafka's own producer) a batch that is sent again is not
stored twice (KIP-98). The order in a partition is kept: a batch is sent after the one before was
acknowledged. A batch that is too large for its topic, as when the limit was lowered meanwhile, is sent in
parts, which keep its sequence numbers, as Java's producer does.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.compression import Compression
from ottla.logstore.record import Headers, iterate_records
from ottla.logstore.record_batch import HEADER_SIZE, increment_sequence
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import topic_admin
from ottla.node.client.ask_leaders import find_leaders
from ottla.node.client.batch_builder import BatchBuilder
from ottla.node.client.cluster_client import MAX_RETRY_PAUSE_S, RETRY_PAUSE_S, Client, Topic, check
from ottla.node.client.stored_batches import is_stored
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

MAX_BATCH_BYTES: Final = (
    900_000  # below the default message.max.bytes of 1 MiB; less if the topic's limit is lower
)
# Of all partitions together: far below socket.request.max.bytes for any number of partitions.
MAX_PENDING_BYTES: Final = 4 * 1024 * 1024
NO_LIMIT_BYTES: Final = 2**31 - 1  # if the limit of a topic is unknown
RECORD_OVERHEAD_BYTES: Final = 32  # upper bound of the lengths, deltas and attributes of a record
ALL_REPLICAS: Final = -1
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
# The leader appended the batch, but too few replicas had it in time; or the error does not say.
MAY_BE_STORED: Final = frozenset(
    {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.UNKNOWN_SERVER_ERROR}
)


class ProducerRecord(NamedTuple):
    """A record to send; if `partition` is None its key selects one, and without a key any will do."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None  # ms since 1970; None: now


class _Batch(NamedTuple):
    partition: TopicPartition
    records_count: int
    base_sequence: int
    size_bytes: int  # before compression
    content: bytearray

    @property
    def last_sequence(self) -> int:
        return increment_sequence(self.base_sequence, self.records_count - 1)


class Written(NamedTuple):
    """The records that one partition acknowledged; the offsets are None if a leader returned none (acks=0).

    Records of other producers may lie between them.
    """

    records: int
    first_offset: int | None
    last_offset: int | None

    def and_then(self, records: int, base_offset: int | None) -> "Written":
        """Return this with one more batch, at `base_offset` if the leader returned it."""
        total = self.records + records
        if base_offset is None:
            return Written(total, self.first_offset, self.last_offset)
        first = base_offset if self.first_offset is None else self.first_offset
        return Written(total, first, base_offset + records - 1)


class _Failure(NamedTuple):
    """The error of an attempt to send a batch; `may_be_stored` if the leader may have appended it."""

    error: KafkaError
    may_be_stored: bool


class Producer:
    """A producer for one topic. `add` records, `flush` often; a rejected batch raises and is not counted."""

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        acks: int = ALL_REPLICAS,
        compression: Compression = Compression.NONE,
        idempotent: bool = True,
        chance: random.Random | None = None,
    ) -> None:
        self.acknowledged = 0
        self.acknowledged_bytes = 0  # before compression
        self._written: dict[int, Written] = {}  # by partition, since the last `take_written`
        self._client = client
        self._topic = topic
        self._acks = acks
        self._compression = compression
        self._idempotent = idempotent
        self._chance = chance or random.Random()
        self._producer = (-1, -1)  # id and epoch
        self._sequences: dict[int, int] = {}
        self._pending: dict[int, list[BatchBuilder]] = {}  # by partition, oldest first
        self._pending_bytes = 0
        self._has_full_batch = False
        self._max_batch_bytes = MAX_BATCH_BYTES
        self._max_message_bytes = NO_LIMIT_BYTES
        self._sticky = 0
        self._partitions_count = 0

    @property
    def is_full(self) -> bool:
        """Return True if so much is pending that it should be flushed before more is added."""
        return self._has_full_batch or self._pending_bytes >= MAX_PENDING_BYTES

    async def start(self, *, may_create: bool = False) -> None:
        """Find the topic and get a producer id; a topic that does not exist is created if `may_create`."""
        topic = await self._find_topic(may_create)
        self._partitions_count = len(topic.leaders)
        self._sticky = self._chance.randrange(self._partitions_count)
        self._sticky = self._next_sticky()
        await self._learn_limit(self._client)
        if self._idempotent:
            response = await self._client.retry(self._init_producer_id)
            self._producer = (response.producer_id, response.producer_epoch)

    async def _find_topic(self, may_create: bool) -> Topic:
        try:
            return await self._client.topic(self._topic)
        except KafkaError as unknown:
            if unknown.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not may_create:
                raise
        try:
            await topic_admin.create_topic(
                self._client, self._topic, partitions=-1, replicas=-1, configs={}, only_check=False
            )
        except KafkaError as refused:
            if refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another producer created it first
                raise
        # The node that answers may apply the new topic later than the controller.
        return await self._client.topic(self._topic, may_create=True)

    async def _init_producer_id(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        connection = await self._client.any_node()
        response = await connection.request(
            request, InitProducerIdResponse, timeout_s=self._client.remaining_s
        )
        check(response.error_code, None, "the request for a producer id")
        return response

    def add(self, record: ProducerRecord) -> None:
        """Add a record to the batch of its partition.

        ValueError for a partition that does not exist, and for a record that is too large for the topic.
        """
        partition = self._partition_of(record)
        timestamp = int(time.time() * 1000) if record.timestamp is None else record.timestamp
        size_bytes = _record_size(record.key, record.value, record.headers)
        if size_bytes > self._max_message_bytes - HEADER_SIZE:
            self._check_size(record, timestamp)
        batches = self._pending.setdefault(partition, [])
        if not batches or batches[-1].size_bytes + size_bytes > self._max_batch_bytes:
            self._has_full_batch = self._has_full_batch or bool(batches)
            batches.append(BatchBuilder())
        batches[-1].append(record.key, record.value, timestamp, record.headers)
        self._pending_bytes += size_bytes

    def _check_size(self, record: ProducerRecord, timestamp: int) -> None:
        """Raise ValueError if a batch of only this record is too large for the topic."""
        alone = BatchBuilder()
        alone.append(record.key, record.value, timestamp, record.headers)
        batch = alone.build(
            compression=self._compression, producer_id=-1, producer_epoch=-1, base_sequence=-1
        )
        if len(batch) > self._max_message_bytes:
            raise ValueError(
                f"the record takes {len(batch)} bytes, more than the max.message.bytes of topic "
                f"{self._topic}, {self._max_message_bytes}: raise that setting, or send smaller "
                "records"
            )

    def _partition_of(self, record: ProducerRecord) -> int:
        if record.partition is not None:
            if not 0 <= record.partition < self._partitions_count:
                raise ValueError(
                    f"Topic '{self._topic}' has no partition {record.partition}; it has"
                    f" {self._partitions_count}, counted from 0."
                )
            return record.partition
        if record.key is not None:
            return partition_for(record.key, self._partitions_count)
        return self._sticky

    def _next_sticky(self) -> int:
        """Return the next partition for records without a key: one that has a leader, if any has."""
        topic = self._client.topics.get(self._topic)
        led = [] if topic is None else [number for number, leader in topic.leaders.items() if leader >= 0]
        places = [
            (self._sticky + step) % self._partitions_count for step in range(1, self._partitions_count + 1)
        ]
        return next((place for place in places if place in led), places[0])

    async def flush(self) -> None:
        """Send all pending records; return when the leaders have acknowledged them."""
        while self._pending:
            batches = [
                self._encode(TopicPartition(self._topic, number), waiting.pop(0))
                for number, waiting in self._pending.items()
            ]
            self._pending = {number: waiting for number, waiting in self._pending.items() if waiting}
            await self._deliver({batch.partition: batch for batch in batches})
        self._pending_bytes, self._has_full_batch = 0, False
        self._sticky = self._next_sticky()

    async def _deliver(self, encoded: dict[TopicPartition, _Batch]) -> None:
        client = self._client.renewed()
        pause_s = RETRY_PAUSE_S
        pieces: dict[TopicPartition, deque[_Batch]] = {}  # the remaining parts of batches that were split
        uncertain: set[TopicPartition] = set()  # an earlier attempt may have reached the log
        while encoded:
            failures = await self._send_once(client, encoded)
            too_large = [
                one
                for one, failure in failures.items()
                if failure.error.code in TOO_LARGE and encoded[one].records_count > 1
            ]
            for partition in too_large:
                del failures[partition]
                split = await self._split(client, encoded.pop(partition), partition in uncertain)
                uncertain.discard(partition)
                pieces.setdefault(partition, deque()).extendleft(reversed(split))
            uncertain |= {one for one, failure in failures.items() if failure.may_be_stored}
            uncertain &= failures.keys()
            for partition in [one for one, waiting in pieces.items() if waiting and one not in encoded]:
                encoded[partition] = pieces[partition].popleft()
            if not failures:
                client = self._client.renewed()
                continue
            problems = [failure.error for failure in failures.values()]
            problem = next((one for one in problems if not one.code.retriable), problems[0])
            if not problem.code.retriable or not client.deadline.allows(pause_s):
                raise problem
            if not self._idempotent and problem.code in (
                ErrorCode.NETWORK_EXCEPTION,
                ErrorCode.REQUEST_TIMED_OUT,
            ):
                raise problem  # it may be stored: sending it again could store it twice
            self._client.forget(self._topic)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_RETRY_PAUSE_S)

    def _encode(self, partition: TopicPartition, builder: BatchBuilder) -> _Batch:
        number = partition.partition
        sequence = self._sequences.get(number, 0) if self._idempotent else -1
        if self._idempotent:
            self._sequences[number] = increment_sequence(sequence, builder.records_count)
        return self._built(partition, builder, sequence)

    def _built(self, partition: TopicPartition, builder: BatchBuilder, sequence: int) -> _Batch:
        producer_id, epoch = self._producer
        content = builder.build(
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return _Batch(partition, builder.records_count, sequence, builder.size_bytes, content)

    async def _split(self, client: Client, batch: _Batch, was_uncertain: bool) -> list[_Batch]:
        """Return smaller batches with the same records and sequence numbers; none if the log has the batch.

        If the log has the batch, the leader would reject its parts as out of order, and Java's producer
        stores them again. A client that may not read the producers' state gets that error, and stores nothing
        twice.
        """
        if was_uncertain and self._idempotent:
            stored = await is_stored(client, batch.partition, *self._producer, batch.last_sequence)
            if stored:
                self._acknowledge(batch)
                return []
        await self._learn_limit(client)
        most_bytes = min(self._max_batch_bytes, batch.size_bytes // 2)
        sequence = batch.base_sequence
        found: list[_Batch] = []
        builder = BatchBuilder()
        for record in iterate_records(batch.content):
            size_bytes = _record_size(record.key, record.value, record.headers)
            if builder.records_count and builder.size_bytes + size_bytes > most_bytes:
                found.append(self._built(batch.partition, builder, sequence))
                if self._idempotent:
                    sequence = increment_sequence(sequence, builder.records_count)
                builder = BatchBuilder()
            builder.append(record.key, record.value, record.timestamp, record.headers)
        found.append(self._built(batch.partition, builder, sequence))
        return found

    async def _learn_limit(self, client: Client) -> None:
        self._max_message_bytes = await topic_admin.max_batch_bytes(client, self._topic, NO_LIMIT_BYTES)
        self._max_batch_bytes = min(MAX_BATCH_BYTES, self._max_message_bytes)

    async def _send_once(
        self, client: Client, encoded: dict[TopicPartition, _Batch]
    ) -> dict[TopicPartition, _Failure]:
        """Send to all leaders at once; remove stored batches from `encoded`, return the errors of others."""
        by_leader: dict[int, list[TopicPartition]] = {}
        failures: dict[TopicPartition, _Failure] = {}
        try:
            leaders = await find_leaders(client, encoded)
        except KafkaError as error:
            return dict.fromkeys(encoded, _Failure(error, may_be_stored=False))
        for partition, leader in leaders.items():
            if isinstance(leader, KafkaError):
                failures[partition] = _Failure(leader, may_be_stored=False)
            else:
                by_leader.setdefault(leader, []).append(partition)
        if not by_leader:
            return failures
        topic = client.topics[self._topic]
        async with asyncio.TaskGroup() as tasks:
            sent = [
                tasks.create_task(self._send_to(client, leader, topic.topic_id, partitions, encoded))
                for leader, partitions in sorted(by_leader.items())
            ]
        for task in sent:
            failures |= task.result()
        return failures

    async def _send_to(
        self,
        client: Client,
        leader: int,
        topic_id: bytes,
        partitions: Sequence[TopicPartition],
        encoded: dict[TopicPartition, _Batch],
    ) -> Mapping[TopicPartition, _Failure]:
        data = [PartitionProduceData(index=one.partition, records=encoded[one].content) for one in partitions]
        topic_data = TopicProduceData(name=self._topic, topic_id=topic_id, partition_data=data)
        request = ProduceRequest(acks=self._acks, timeout_ms=client.remaining_ms, topic_data=[topic_data])
        try:
            connection = await client.node(leader)
            if self._acks == 0:
                await connection.send_without_answer(request)
                for partition in partitions:
                    self._acknowledge(encoded.pop(partition))
                return {}
            response = await connection.request(request, ProduceResponse, timeout_s=client.remaining_s)
        except KafkaError as error:
            return dict.fromkeys(partitions, _Failure(error, may_be_stored=True))
        return self._take_answers(response, connection.peer, partitions, encoded)

    def _take_answers(
        self,
        response: ProduceResponse,
        peer: str,
        partitions: Sequence[TopicPartition],
        encoded: dict[TopicPartition, _Batch],
    ) -> Mapping[TopicPartition, _Failure]:
        answers = [answer for topic in response.responses for answer in topic.partition_responses]
        if {answer.index for answer in answers} != {one.partition for one in partitions}:
            error = KafkaError(ErrorCode.INVALID_REQUEST, f"{peer} answered for other partitions than asked")
            return dict.fromkeys(partitions, _Failure(error, may_be_stored=True))
        failures: dict[TopicPartition, _Failure] = {}
        for answer in answers:
            partition = TopicPartition(self._topic, answer.index)
            # An earlier attempt stored it (brokers before 4 answer with this error).
            if answer.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._acknowledge(encoded.pop(partition), answer.base_offset)
                continue
            words = [one.batch_index_error_message for one in answer.record_errors]
            # The error of one record says more than the error of its batch.
            message = next(filter(None, words), None) or answer.error_message
            try:
                check(
                    answer.error_code,
                    message,
                    f"{counted_records(encoded[partition].records_count)} for {partition}",
                )
            except KafkaError as error:
                failures[partition] = _Failure(error, may_be_stored=error.code in MAY_BE_STORED)
        return failures

    def _acknowledge(self, batch: _Batch, base_offset: int = -1) -> None:
        """Count a stored batch; the offset of a duplicate is unknown, since the leader does not return it."""
        self.acknowledged += batch.records_count
        self.acknowledged_bytes += batch.size_bytes
        number = batch.partition.partition
        so_far = self._written.get(number, Written(0, None, None))
        offset = base_offset if base_offset >= 0 else None
        self._written[number] = so_far.and_then(batch.records_count, offset)

    def take_written(self) -> dict[int, Written]:
        """Return the records acknowledged since the last call, by partition."""
        written, self._written = self._written, {}
        return written


def _record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound of the bytes that a record adds to a batch."""
    size_bytes = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if headers:
        size_bytes += sum(4 * len(name) + len(content or b"") + 10 for name, content in headers)
    return size_bytes


def partition_for(key: bytes, partitions_count: int) -> int:
    """Return the partition that Kafka's own producer selects for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions_count


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 with Kafka's seed, unsigned."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        value = (value * factor & mask) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15


def counted_records(count: int) -> str:
    """Return the count with its noun: `1 record`, `2 records`."""
    return f"{count} record{'' if count == 1 else 's'}"
