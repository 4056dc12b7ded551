"""Produce requests that begin like an earlier one: the same client, acks, topic and partition, another batch.

A producer repeats itself, and half the cost of a small request was to decode the same names and to encode the
same answer. So what stands before the batch (its *head*) is looked up as bytes in a table. There is no second
codec: what a head means was found by the general decoder, the table's bytes come from the general encoders,
and a request that is not found there, or goes on in another way, takes the general way through `produce`.
Both ways give the same answers to the same bytes (`tests/unit/node/test_repeated_produce.py`): what
`Append.partition` checks beside the batch and may change between two requests is checked here too.
"""

import struct
from typing import TYPE_CHECKING, Final

from logstore.errors import KafkaError
from logstore.record_batch import HEADER_SIZE, TRANSACTIONAL_BIT
from logstore.schema import replace
from logstore.schema_compiler import encoder
from logstore.schema_decode import read_uvarint
from logstore.topic_partition import TopicPartition
from node.kafka_api.internal_topics import is_internal_topic
from node.kafka_api.produce import ATTRIBUTES_LOW_BYTE, Append
from node.kafka_api.request_context import ConnectionInfo, Delayed, RequestContext
from node.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker

# What a node remembers of one version at most, 1.3 KB each.
MAX_HEADS: Final = 2048
# Where more are in use than there is room for, only every 16th unknown one takes the place of the oldest: to
# learn a head costs more than a request, and each would be forgotten before it comes again.
LEARN_EVERY_WHEN_FULL: Final = 16
MAX_HEAD_BYTES: Final = 512  # a client id may have 32 KB
_HEAD_AT = 8  # behind api key, version and correlation id
_CLIENT_ID_AT = 10  # behind its length
_CORRELATION_ID_AT = 4  # in an answer, behind its size
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_put_int32 = struct.Struct(">i").pack_into
_put_offsets = struct.Struct(">qqq").pack_into
_put_offsets_before_log_start = struct.Struct(">qq").pack_into


class KnownHead:
    """What a head means, and the answer to it but for correlation id and offsets."""

    __slots__ = ("answer", "client_id", "offsets_at", "request", "topic_partition")

    def __init__(
        self, request: ProduceRequest, client_id: str | None, topic: str, answer: bytearray, offsets_at: int
    ) -> None:
        self.request = request  # its batch is empty
        self.client_id = client_id
        self.topic_partition = TopicPartition(topic, request.topic_data[0].partition_data[0].index)
        self.answer = answer
        self.offsets_at = offsets_at


class RepeatedProduces:
    """The heads of one version that were seen before."""

    __slots__ = (
        "_broker",
        "_goes_by_id",
        "_has_log_start",
        "_heads",
        "_is_flexible",
        "_tail",
        "_turned_away",
        "_version",
    )

    def __init__(self, broker: "Broker", version: int) -> None:
        self._broker = broker
        self._version = version
        self._heads: dict[bytes, KnownHead] = {}
        self._turned_away = 0  # unknown heads since the table is full
        self._has_log_start = version >= 5
        self._is_flexible = version >= 9
        self._goes_by_id = version >= 13
        # Three empty tagged sections end a flexible request: of the partition, the topic and the whole.
        self._tail = b"\0\0\0" if self._is_flexible else b""

    def serve(
        self, frame: memoryview, correlation_id: int, connection: ConnectionInfo
    ) -> bytearray | ProduceResponse | Delayed | None:
        """The answer, as bytes where the head is known and the batch is taken; None: take the general way."""
        try:
            head_end = self._head_end(frame)
            known = self._heads.get(bytes(frame[_HEAD_AT:head_end]))
            if known is None:
                return None
            start, end = self._records_in(frame, head_end)
        except (IndexError, struct.error, ValueError):
            return None  # The general way says what is wrong.
        tail = self._tail
        if end - start < HEADER_SIZE or end + len(tail) != len(frame) or (tail and frame[end:] != tail):
            return None
        if frame[start + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
            return None
        topic_partition = known.topic_partition
        if self._goes_by_id:
            # The name of a deleted topic may be another's by now, its id never.
            by_id = self._broker.metadata.image.topics.by_id
            if known.request.topic_data[0].topic_id not in by_id:
                return None
        broker, acks = self._broker, known.request.acks
        if broker.is_cut_off:
            return None
        try:
            partition = broker.replica_manager.partition(topic_partition)
            result = partition.append_as_leader(
                frame[start:end],
                required_acks=acks,
                now_ms=broker.clock.now_ms(),
                produce_version=self._version,
            )
        except KafkaError as error:
            append = self._general_append(known, correlation_id, connection)
            topic, index = topic_partition
            return self._in_words(append, known, append.failed(topic, index, error))
        base_offset, last_offset, log_append_time_ms, log_start_offset, _ = result
        if acks == -1 and partition.log.high_watermark <= last_offset:
            append = self._general_append(known, correlation_id, connection)
            return self._in_words(append, known, append.done(partition, topic_partition.partition, result))
        answer = known.answer.copy()
        _put_int32(answer, _CORRELATION_ID_AT, correlation_id)
        if self._has_log_start:
            _put_offsets(answer, known.offsets_at, base_offset, log_append_time_ms, log_start_offset)
        else:
            _put_offsets_before_log_start(answer, known.offsets_at, base_offset, log_append_time_ms)
        return answer

    def learn(
        self,
        frame: memoryview,
        body_at: int,
        context: RequestContext,
        request: ProduceRequest,
        response: ProduceResponse,
        prefix_bytes: int,
    ) -> None:
        """Remember the head of a request that the general way has just served, if it is of the usual shape.

        Its body begins at `body_at`; before the answer go `prefix_bytes` for size and header.
        """
        if len(response.responses) != 1 or len(request.topic_data) != 1:
            return
        if request.acks == 0 or request.transactional_id is not None:
            return
        (topic,), (topic_response,) = request.topic_data, response.responses
        if len(topic.partition_data) != 1 or topic_response.partition_responses[0].error_code:
            return
        name = topic.name
        if self._goes_by_id:
            name = self._broker.metadata.image.topics.by_id[topic.topic_id].name
        head_end = self._head_end(frame)
        if head_end > MAX_HEAD_BYTES or is_internal_topic(name):
            return
        head = bytes(frame[_HEAD_AT:head_end])
        if head in self._heads:
            return  # It was what followed that made this request take the general way.
        if len(self._heads) >= MAX_HEADS:
            self._turned_away += 1
            if self._turned_away % LEARN_EVERY_WHEN_FULL:
                return
        bare = _without_records(request)
        body = b"".join(encoder(ProduceRequest, self._version)(bare, bytearray()))
        null_records_bytes = 1 if self._tail else 4
        # Not so where the frame is written in an unusual way, with tags or long varints: then the length of
        # the batch stands elsewhere.
        if frame[body_at:head_end] != body[: len(body) - null_records_bytes - len(self._tail)]:
            return
        if len(self._heads) >= MAX_HEADS:
            del self._heads[next(iter(self._heads))]
        answer, offsets_at = self._answer_to(bare, prefix_bytes)
        self._heads[head] = KnownHead(bare, context.client_id, name, answer, offsets_at)

    def _head_end(self, frame: memoryview) -> int:
        """Where the length of the batch stands in a request of the usual shape; in another, anywhere."""
        (client_id_bytes,) = _int16(frame, _HEAD_AT)
        position = _CLIENT_ID_AT + client_id_bytes if client_id_bytes > 0 else _CLIENT_ID_AT
        if not self._is_flexible:
            # No transactional id (2), acks (2), timeout (4), one topic (4), its name; one partition, index.
            (name_bytes,) = _int16(frame, position + 12)
            return position + 22 + int(name_bytes)
        # No tags (1), no transactional id (1), acks, timeout, one topic (1); then the same in fewer bytes.
        if not self._goes_by_id:
            return position + 14 + frame[position + 9]
        return position + 30

    def _records_in(self, frame: memoryview, position: int) -> tuple[int, int]:
        """Start and end of the batch whose length stands at `position`."""
        if not self._is_flexible:
            (size_bytes,) = _int32(frame, position)
            return position + 4, position + 4 + size_bytes
        size_bytes, position = read_uvarint(frame, position)
        return position, position + size_bytes - 1

    def _answer_to(self, request: ProduceRequest, prefix_bytes: int) -> tuple[bytearray, int]:
        """The answer without an error, and where in it base offset, append time and log start are."""

        def encoded(offset: int) -> bytearray:
            (topic,) = request.topic_data
            partition_response = PartitionProduceResponse(
                index=topic.partition_data[0].index,
                base_offset=offset,
                log_append_time_ms=offset,
                log_start_offset=offset,
            )
            topic_response = TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=[partition_response]
            )
            response = ProduceResponse(responses=[topic_response])
            (answer,) = encoder(ProduceResponse, self._version)(response, bytearray(prefix_bytes))
            assert isinstance(answer, bytearray)
            return answer

        zeros, ones = encoded(0), encoded(-1)
        # All bits of the three fields differ, no other byte does.
        differing = [at for at, (zero, one) in enumerate(zip(zeros, ones, strict=True)) if zero != one]
        fields = 3 if self._has_log_start else 2
        assert differing == list(range(differing[0], differing[0] + 8 * fields)), differing
        _put_int32(zeros, 0, len(zeros) - 4)
        return zeros, differing[0]

    def _general_append(self, known: KnownHead, correlation_id: int, connection: ConnectionInfo) -> Append:
        context = RequestContext(0, self._version, correlation_id, known.client_id, connection)
        return Append(self._broker, context, known.request)

    def _in_words(
        self, append: Append, known: KnownHead, partition_response: PartitionProduceResponse
    ) -> ProduceResponse | Delayed:
        (topic,) = known.request.topic_data
        answer = append.answer(
            [
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=[partition_response]
                )
            ]
        )
        assert answer is not None, "requests with acks=0 are not remembered"
        return answer


def _without_records(request: ProduceRequest) -> ProduceRequest:
    """The same with null for the one batch, whose bytes belong to the connection."""
    (topic,) = request.topic_data
    data = PartitionProduceData(index=topic.partition_data[0].index, records=None)
    bare = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
    return replace(request, topic_data=[bare])
