"""The heads of Produce requests of one version, that is the bytes before the batch, and their meaning.

Only requests of the usual shape have a head here: one topic, one partition, acks 1 or all, no tags. The
general decoder found the meaning of each head, and the general encoder writes its response. A head with a
transactional id is looked up only if the lookup without one fails, so it costs other requests nothing.
"""

import struct
from typing import Final

from ottla.logstore.record_batch import HEADER_SIZE, NO_TIMESTAMP
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema import replace
from ottla.logstore.words.schema_compiler import encoder
from ottla.logstore.words.schema_decode import read_uvarint
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.internal_topics import is_internal_topic
from ottla.node.kafka_api.produce_append import NO_OFFSET
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

# The heads that a node remembers for one version, 1.3 KB each.
MAX_HEADS: Final = 2048
# If more heads are in use than fit, only every 16th unknown one replaces the oldest: learning a head costs
# more than a request, and each would be forgotten before it recurs.
LEARN_EVERY_WHEN_FULL: Final = 16
MAX_HEAD_BYTES: Final = 512  # a client id may have 32 KB
MAX_SHORT_ID_BYTES: Final = 127  # the length of a transactional id that is shorter takes one byte
MAX_RUN: Final = 32  # requests of one connection that are served at once
SIZE_BYTES: Final = 4
_HEAD_AT: Final = 8  # in a frame, after API key, version and correlation id
_CLIENT_ID_AT: Final = 10  # after its length
_CORRELATION_ID_AT: Final = 4  # in a response, after its size
_PREFIX: Final = struct.Struct(">ihhi")  # size, api key, version, correlation id
_PREFIX_BYTES: Final = _PREFIX.size
_prefix = _PREFIX.unpack_from
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_put_int32 = struct.Struct(">i").pack_into
_FIRST_VERSION_WITH_LOG_START: Final = 5


class KnownHead:
    """The meaning of a head, and the response to it except for correlation id and offsets."""

    __slots__ = (
        "_before_offsets",
        "_behind_offsets",
        "_pack",
        "_prefix_bytes",
        "_size",
        "_version",
        "client_id",
        "request",
        "topic_partition",
    )

    def __init__(
        self, request: ProduceRequest, client_id: str | None, topic: str, *, version: int, prefix_bytes: int
    ) -> None:
        """`request` has an empty batch; a response begins with `prefix_bytes` of length field and header."""
        self.request = request
        self.client_id = client_id
        self.topic_partition = TopicPartition(topic, request.topic_data[0].partition_data[0].index)
        self._version = version
        self._prefix_bytes = prefix_bytes
        zeros, ones = self._encoded(offset=0), self._encoded(offset=-1)
        # All bits of the offsets and the time differ, and no other byte does.
        differing = [at for at, (zero, one) in enumerate(zip(zeros, ones, strict=True)) if zero != one]
        fields = 3 if version >= _FIRST_VERSION_WITH_LOG_START else 2
        offsets_at = differing[0]
        offsets_end = offsets_at + 8 * fields
        assert differing == list(range(offsets_at, offsets_end)), differing
        self._size = bytes(zeros[:_CORRELATION_ID_AT])
        self._before_offsets = bytes(zeros[_CORRELATION_ID_AT + 4 : offsets_at])
        self._behind_offsets = bytes(zeros[offsets_end:])
        parts = (len(self._before_offsets), "q" * fields, len(self._behind_offsets))
        self._pack = struct.Struct(">4si{}s{}{}s".format(*parts)).pack

    def is_allowed(self, access: Access) -> bool:
        """Return True if the client is known to have the rights; otherwise the general path checks them."""
        transactional_id = self.request.transactional_id
        return self.topic_partition.topic in access.writes and (
            transactional_id is None or transactional_id in access.transactional_ids
        )

    def topic_responses(self, partition_response: PartitionProduceResponse) -> list[TopicProduceResponse]:
        """Return the response for the one partition in the form that the general encoder takes."""
        (topic,) = self.request.topic_data
        return [
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=[partition_response]
            )
        ]

    def _encoded(self, *, offset: int = NO_OFFSET, code: ErrorCode = ErrorCode.NONE) -> bytearray:
        partition_response = PartitionProduceResponse(
            index=self.topic_partition.partition,
            error_code=code,
            base_offset=offset,
            log_append_time_ms=offset,
            log_start_offset=offset,
        )
        response = ProduceResponse(responses=self.topic_responses(partition_response))
        (answer,) = encoder(ProduceResponse, self._version)(response, bytearray(self._prefix_bytes))
        assert isinstance(answer, bytearray)
        _put_int32(answer, 0, len(answer) - SIZE_BYTES)
        return answer

    def answers(
        self, correlation_ids: list[int], places: list[tuple[int, int]], log_start_offset: int
    ) -> bytes:
        """Return the concatenated responses for batches at `places` (base offset, next offset).

        There may be more correlation ids than places: the first ones are answered.
        """
        pairs = zip(correlation_ids, places, strict=False)
        if self._version < _FIRST_VERSION_WITH_LOG_START:
            return b"".join(
                [self.answer_with(number, base_offset, NO_TIMESTAMP, 0) for number, (base_offset, _) in pairs]
            )
        pack, size, before, behind = self._pack, self._size, self._before_offsets, self._behind_offsets
        return b"".join(
            [
                pack(size, number, before, base_offset, NO_TIMESTAMP, log_start_offset, behind)
                for number, (base_offset, _) in pairs
            ]
        )

    def answer_with(
        self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
    ) -> bytes:
        """Return the response to one request."""
        offsets: tuple[int, ...] = (base_offset, log_append_time_ms, log_start_offset)
        if self._version < _FIRST_VERSION_WITH_LOG_START:
            offsets = offsets[:2]
        return self._pack(self._size, correlation_id, self._before_offsets, *offsets, self._behind_offsets)

    def refusals(self, correlation_ids: list[int], code: ErrorCode) -> bytearray:
        """Return a response with the error for each of these requests."""
        answer = self._encoded(code=code)
        answers = answer * len(correlation_ids)
        for number, correlation_id in enumerate(correlation_ids):
            _put_int32(answers, number * len(answer) + _CORRELATION_ID_AT, correlation_id)
        return answers


class ProduceHeads:
    """The heads of one version that were seen before."""

    __slots__ = ("_goes_by_id", "_is_flexible", "_rejected", "_services", "_tail", "_version", "known")

    def __init__(self, services: Services, version: int) -> None:
        self._services = services
        self._version = version
        self.known: dict[bytes, KnownHead] = {}
        self._rejected = 0  # unknown heads since the table is full
        self._is_flexible = version >= 9
        self._goes_by_id = version >= 13
        # Three empty tag sections end a flexible request: those of the partition, the topic and the request.
        self._tail = b"\0\0\0" if self._is_flexible else b""

    def find(self, frame: memoryview) -> tuple[KnownHead, memoryview] | None:
        """Return the meaning of a request's head, and its batch; None if the general path must serve it."""
        try:
            head_end = self._head_end(frame)
            known = self.known.get(bytes(frame[_HEAD_AT:head_end]))
            if known is None:
                head_end = self._transactional_head_end(frame)
                known = self.known.get(bytes(frame[_HEAD_AT:head_end]))
            if known is None or not self._topic_exists(known):
                return None
            start, end = self._records_in(frame, head_end)
        except (IndexError, struct.error, ValueError):
            return None  # The general path reports the error.
        tail = self._tail
        if end - start < HEADER_SIZE or end + len(tail) != len(frame) or (tail and frame[end:] != tail):
            return None
        return known, frame[start:end]

    def find_run(
        self, view: memoryview, position: int, end: int
    ) -> tuple[KnownHead, list[memoryview], list[int], list[int]] | None:
        """Return the consecutive requests with one head in `view`; the size of the first is at `position`.

        They are returned as the meaning of the head, the batches, the correlation ids and the end positions.
        Return None if there are fewer than two; requests in a transaction are served one by one.
        """
        try:
            frame = view[position + SIZE_BYTES : end]
            head_end = self._head_end(frame)
            head = bytes(frame[_HEAD_AT:head_end])
            known = self.known.get(head)
            if known is None or not self._topic_exists(known):
                return None
            batches, correlation_ids, stops = self._run_of(head, view, position, end)
        except (IndexError, struct.error, ValueError):
            return None
        return (known, batches, correlation_ids, stops) if len(batches) > 1 else None

    def _run_of(
        self, head: bytes, view: memoryview, position: int, end: int
    ) -> tuple[list[memoryview], list[int], list[int]]:
        batches: list[memoryview] = []
        correlation_ids: list[int] = []
        stops: list[int] = []
        tail, version = self._tail, self._version
        max_frame_bytes = self._services.config.socket_request_max_bytes
        known_size, lead, lead_bytes = -1, b"", 0
        while position + _PREFIX_BYTES < end and len(batches) < MAX_RUN:
            size, api_key, api_version, correlation_id = _prefix(view, position)
            stop = position + SIZE_BYTES + size
            if stop > end or api_key or api_version != version or size > max_frame_bytes:
                break
            start = position + lead_bytes
            # With the same size and the same bytes before the batch, a request has the same shape.
            if size != known_size or view[position + _PREFIX_BYTES : start] != lead:
                head_end = position + _PREFIX_BYTES + len(head)
                if bytes(view[position + _PREFIX_BYTES : head_end]) != head:
                    break
                start, records_end = self._records_in(view, head_end)
                if records_end + len(tail) != stop or records_end - start < HEADER_SIZE:
                    break
                known_size, lead_bytes = size, start - position
                lead = bytes(view[position + _PREFIX_BYTES : start])
            records_end = stop - len(tail)
            if tail and view[records_end:stop] != tail:
                break
            batches.append(view[start:records_end])
            correlation_ids.append(correlation_id)
            stops.append(stop)
            position = stop
        return batches, correlation_ids, stops

    def _topic_exists(self, known: KnownHead) -> bool:
        # The name of a deleted topic may belong to another one now, its id never.
        if not self._goes_by_id:
            return True
        return known.request.topic_data[0].topic_id in self._services.metadata.image.topics.by_id

    def _head_end(self, frame: memoryview) -> int:
        """Return the position of the batch's length in a request of the usual shape.

        In requests of another shape the position is arbitrary.
        """
        (client_id_bytes,) = _int16(frame, _HEAD_AT)
        position = _CLIENT_ID_AT + client_id_bytes if client_id_bytes > 0 else _CLIENT_ID_AT
        if not self._is_flexible:
            # No transactional id (2), acks (2), timeout (4), one topic (4), its name; one partition, index.
            (name_bytes,) = _int16(frame, position + 12)
            return position + 22 + int(name_bytes)
        # No tags (1), no transactional id (1), acks, timeout, one topic (1); then the same fields in fewer
        # bytes.
        if not self._goes_by_id:
            return position + 14 + frame[position + 9]
        return position + 30

    def _transactional_head_end(self, frame: memoryview) -> int:
        """Return the position of the batch's length in a request with a transactional id."""
        (client_id_bytes,) = _int16(frame, _HEAD_AT)
        position = _CLIENT_ID_AT + client_id_bytes if client_id_bytes > 0 else _CLIENT_ID_AT
        if not self._is_flexible:
            (id_bytes,) = _int16(frame, position)
            if id_bytes <= 0:
                raise ValueError
            (name_bytes,) = _int16(frame, position + id_bytes + 12)
            return int(position + id_bytes + 22 + name_bytes)
        id_bytes = frame[position + 1] - 1
        if not 0 < id_bytes < MAX_SHORT_ID_BYTES:
            raise ValueError
        if not self._goes_by_id:
            return position + id_bytes + 14 + frame[position + id_bytes + 9]
        return position + id_bytes + 30

    def _records_in(self, frame: memoryview, position: int) -> tuple[int, int]:
        """Return the start and the end of the batch whose length is at `position`."""
        if not self._is_flexible:
            (size_bytes,) = _int32(frame, position)
            return position + 4, position + 4 + size_bytes
        size_bytes, position = read_uvarint(frame, position)
        return position, position + size_bytes - 1

    def learn(
        self,
        frame: memoryview,
        body_at: int,
        context: RequestContext,
        request: ProduceRequest,
        prefix_bytes: int,
    ) -> None:
        """Remember the head of a request of the usual shape that the handler has just served.

        Its body begins at `body_at`; `prefix_bytes` is the size of the length field and header of a response.
        """
        (topic,) = request.topic_data
        name = topic.name
        if self._goes_by_id:
            name = self._services.metadata.image.topics.by_id[topic.topic_id].name
        try:
            is_transactional = request.transactional_id is not None
            head_end = self._transactional_head_end(frame) if is_transactional else self._head_end(frame)
        except (IndexError, struct.error, ValueError):
            return
        if head_end > MAX_HEAD_BYTES or is_internal_topic(name):
            return
        head = bytes(frame[_HEAD_AT:head_end])
        if head in self.known:
            return  # Something after the head made this request take the general path.
        if len(self.known) >= MAX_HEADS:
            self._rejected += 1
            if self._rejected % LEARN_EVERY_WHEN_FULL:
                return
        bare = _without_records(request)
        body = b"".join(encoder(ProduceRequest, self._version)(bare, bytearray()))
        null_records_bytes = 1 if self._tail else 4
        # They differ if the frame is encoded in an unusual way, with tags or long varints: then the length of
        # the batch is elsewhere.
        if frame[body_at:head_end] != body[: len(body) - null_records_bytes - len(self._tail)]:
            return
        if len(self.known) >= MAX_HEADS:
            del self.known[next(iter(self.known))]
        self.known[head] = KnownHead(
            bare, context.client_id, name, version=self._version, prefix_bytes=prefix_bytes
        )


def _without_records(request: ProduceRequest) -> ProduceRequest:
    """Return the request with null in place of its one batch, whose memory the connection reuses."""
    (topic,) = request.topic_data
    data = PartitionProduceData(index=topic.partition_data[0].index, records=None)
    bare = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
    return replace(request, topic_data=[bare])
