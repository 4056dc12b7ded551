"""Sends record batches: several in flight to each leader, each partition's in order, through any failure.

A batch is sent again byte for byte: its producer id, epoch and sequence let the next leader see whether it
has it already. So with idempotence nothing is written twice, and nothing out of order. A batch that is
refused as too large is sent as two halves, whose records keep their sequence numbers, unless the leader has
it already.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.logstore.record_batch import increment_sequence, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.pipeline.client.answers import to_error
from ottla.pipeline.client.clock import monotonic_ms
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.retries import is_retriable
from ottla.pipeline.columns.batch_halves import split_in_halves

# From version 12 on a batch may add its partition to the transaction, and a producer epoch lasts for one
# transaction (KIP-890). With the older protocol any process that knows a producer id and its epoch can end
# their transaction, and do so repeatedly.
MAX_PRODUCE_VERSION: Final = 11
UNKNOWN_OFFSET: Final = -1
# The second one is the answer for a batch that is larger than a segment.
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Placed(NamedTuple):
    """The place of a batch in its log.

    `base_offset` is UNKNOWN_OFFSET if the leader only knows that it has stored the batch, or if the batch was
    split and its parts are not contiguous.
    """

    partition: TopicPartition
    base_offset: int
    records_count: int


@dataclass(slots=True)
class _Batch:
    """One batch and its outcome. Its bytes are dropped once it is placed."""

    number: int  # in the order of sending
    partition: TopicPartition
    data: Buffer
    records_count: int
    deadline_ms: int
    base_offset: int | None = None  # in the log, once known
    error: KafkaError | None = None


class _Sent(NamedTuple):
    connection: BrokerConnection
    pending: PendingRequest
    batch: _Batch


class BatchSender:
    """Batches of one producer; `transactional_id` if they belong to a transaction.

    It cannot be used after a KafkaError: the batches sent before may be in their logs or not.
    """

    def __init__(self, cluster: Cluster, transactional_id: str | None = None) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._transactional_id = transactional_id
        self._batches: list[_Batch] = []  # since the last flush, in order
        self._in_flight: dict[int, deque[_Sent]] = {}  # by node, oldest first
        self._failed: list[_Batch] = []  # with a retriable error, and not sent again yet
        self._begun: set[TopicPartition] = set()  # partitions whose leaders know this producer

    def send(self, partition: TopicPartition, data: Buffer, *, records_count: int) -> None:
        """Send one whole batch, after the earlier ones of its partition; blocks while too many are in flight.

        Raises TopicGone, and KafkaError for a batch that cannot be sent, or not within `delivery.timeout.ms`.
        """
        if len(data) > self._settings.max_request_size:
            raise _too_large(partition, len(data), "kafka.max.request.size")
        deadline_ms = monotonic_ms() + self._settings.delivery_timeout_ms
        batch = _Batch(len(self._batches), partition, data, records_count, deadline_ms)
        self._batches.append(batch)
        try:
            self._send(batch)
        except BaseException:
            self.close()
            raise

    def flush(self) -> Sequence[Placed]:
        """Wait until every batch is in its log; return their places in the order in which they were sent."""
        try:
            self._receive_all()
            self._recover()
        except BaseException:
            self.close()
            raise
        placed = [_placed(batch) for batch in self._batches]
        self._batches.clear()
        return placed

    def close(self) -> None:
        """Close the connections with answers under way, which later requests would take for theirs."""
        for flight in self._in_flight.values():
            for sent in flight:
                sent.connection.close()
        self._in_flight.clear()

    # ---- one batch --------------------------------------------------------------------------------

    def _send(self, batch: _Batch) -> None:
        node_id = self._cluster.leader(batch.partition).node_id
        while len(self._in_flight.get(node_id, ())) >= self._settings.max_in_flight:
            self._receive_oldest(node_id)
        for other, flight in self._in_flight.items():
            # It must not overtake batches on their way to an earlier leader, nor the partition's first batch:
            # a leader that refused the first, as it had not heard of the topic yet, would take the next as
            # this producer's first.
            is_after = other != node_id or batch.partition not in self._begun
            while is_after and any(sent.batch.partition == batch.partition for sent in flight):
                self._receive_oldest(other)
        if self._has_failed(batch.partition):
            self._recover()
            node_id = self._cluster.leader(batch.partition).node_id
        try:
            connection = self._cluster.connections.to(node_id, Purpose.PRODUCE)
            before = self._in_flight.get(node_id)
            if before and before[0].connection is not connection:
                # No batch may overtake those that were lost with the connection before: a leader of Apache
                # Kafka takes any sequence as the first of a producer that it does not know.
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to node {node_id} was lost")
            pending = connection.send(self._request(batch), most=MAX_PRODUCE_VERSION)
        except KafkaError as error:
            self._note_failure(batch, error)
            self._recover()
        else:
            self._in_flight.setdefault(node_id, deque()).append(_Sent(connection, pending, batch))

    def _receive_oldest(self, node_id: int) -> None:
        sent = self._in_flight[node_id].popleft()
        try:
            self._apply_response(sent.batch, sent.connection.receive(sent.pending))
        except KafkaError as error:
            self._note_failure(sent.batch, error)

    def _receive_all(self) -> None:
        for node_id, flight in self._in_flight.items():
            while flight:
                self._receive_oldest(node_id)

    def _note_failure(self, batch: _Batch, error: KafkaError) -> None:
        """Note a failure to be repaired by `_recover`; raise the error if another attempt cannot succeed."""
        if not is_retriable(error) and not _can_be_split(batch, error):
            raise error
        batch.error = error
        self._failed.append(batch)

    def _request(self, batch: _Batch) -> ProduceRequest:
        data = PartitionProduceData(index=batch.partition.partition, records=batch.data)
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=[TopicProduceData(name=batch.partition.topic, partition_data=[data])],
        )

    def _apply_response(self, batch: _Batch, response: ProduceResponse) -> None:
        answers = [one for topic in response.responses for one in topic.partition_responses]
        if len(answers) != 1 or answers[0].index != batch.partition.partition:
            problem = f"expected one answer, about {batch.partition}, but got {len(answers)}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        answer = answers[0]
        if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # It is in the log, but so far back that the leader has forgotten its offset.
            batch.base_offset, batch.data = UNKNOWN_OFFSET, b""
        elif answer.error_code:
            raise self._error_of(batch, answer)
        else:
            batch.base_offset, batch.data = answer.base_offset, b""
        self._begun.add(batch.partition)

    def _error_of(self, batch: _Batch, answer: PartitionProduceResponse) -> KafkaError:
        if answer.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            return _too_large(batch.partition, len(batch.data), "the topic's max.message.bytes")
        if answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE:
            limit = "the topic's segment.bytes"
            return _too_large(batch.partition, len(batch.data), limit, ErrorCode.RECORD_LIST_TOO_LARGE)
        error = to_error(answer.error_code, f"writing to {batch.partition}", answer.error_message)
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._has_failed(batch.partition):
            # The batch before it was refused, so this one, which was already under way, came too early.
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.detail)
        return error

    # ---- failures ---------------------------------------------------------------------------------

    def _has_failed(self, partition: TopicPartition) -> bool:
        return any(batch.partition == partition for batch in self._failed)

    def _recover(self) -> None:
        """Send the failed batches again, one at a time in their first order, until all are stored."""
        if not self._failed:
            return
        # Everything under way is answered first: else one batch might overtake another.
        self._receive_all()
        failed, self._failed = sorted(self._failed, key=lambda batch: batch.number), []
        for batch in failed:
            self._send_alone(batch)

    def _send_alone(self, batch: _Batch) -> None:
        error = batch.error
        self._cluster.forget_topic(batch.partition.topic)
        if error is not None and _can_be_split(batch, error):
            self._send_halves(batch)
            return

        def attempt() -> None:
            connection = self._cluster.connections.to(
                self._cluster.leader(batch.partition).node_id, Purpose.PRODUCE
            )
            self._apply_response(batch, connection.request(self._request(batch), most=MAX_PRODUCE_VERSION))

        def between(_error: KafkaError) -> None:
            self._cluster.forget_topic(batch.partition.topic)

        timeout_ms = batch.deadline_ms - monotonic_ms()
        if timeout_ms <= 0:
            raise error or KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"writing to {batch.partition}")
        try:
            self._cluster.retry(
                attempt,
                between=between,
                timeout_ms=timeout_ms,
            )
        except KafkaError as refused:
            if not _can_be_split(batch, refused):
                raise
            self._send_halves(batch)

    def _send_halves(self, batch: _Batch) -> None:
        if self._is_stored(batch):
            batch.base_offset, batch.data = UNKNOWN_OFFSET, b""
            return
        count = batch.records_count
        first, second = split_in_halves(batch.data, self._settings.compression_level)
        halves = (
            _Batch(batch.number, batch.partition, first, count // 2, batch.deadline_ms),
            _Batch(batch.number, batch.partition, second, count - count // 2, batch.deadline_ms),
        )
        batch.data = b""
        for half in halves:
            self._send_alone(half)
        begun, then = (half.base_offset for half in halves)
        assert begun is not None and then is not None, "each half is placed"
        # A batch of another producer may lie between them.
        batch.base_offset = begun if then == begun + count // 2 else UNKNOWN_OFFSET

    def _is_stored(self, batch: _Batch) -> bool:
        """Ask the leader whether an earlier attempt, whose answer was lost, has reached the log.

        If the client may not ask, it sends the halves: if the batch is stored after all, their sequence
        numbers do not fit, so the task fails and nothing is written twice.
        """
        header = read_header(batch.data)
        last = increment_sequence(header.base_sequence, header.last_offset_delta)
        wanted = TopicRequest(name=batch.partition.topic, partition_indexes=[batch.partition.partition])
        try:
            connection = self._cluster.connections.to(
                self._cluster.leader(batch.partition).node_id, Purpose.PRODUCE
            )
            response = connection.request(DescribeProducersRequest(topics=[wanted]))
        except KafkaError:
            return False
        stored = [
            state.last_sequence
            for topic in response.topics
            for one in topic.partitions
            for state in one.active_producers
            if (state.producer_id, state.producer_epoch) == (header.producer_id, header.producer_epoch)
        ]
        # Later batches that were under way may be stored, too. Sequence numbers wrap: after 2^31-1 comes 0.
        return any(0 <= increment_sequence(there, -last) < 2**30 for there in stored)


def _placed(batch: _Batch) -> Placed:
    assert batch.base_offset is not None, "every batch was answered"
    return Placed(batch.partition, batch.base_offset, batch.records_count)


def _can_be_split(batch: _Batch, error: KafkaError) -> bool:
    return error.code in _TOO_LARGE and batch.records_count > 1


def _too_large(
    partition: TopicPartition, size: int, limit: str, code: ErrorCode = ErrorCode.MESSAGE_TOO_LARGE
) -> KafkaError:
    return KafkaError(code, f"a batch of {size} bytes for {partition} is larger than {limit}")
