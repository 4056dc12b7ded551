"""Produce requests that begin like an earlier one: same client, acks, topic and partition, another batch.

A producer sends the same names and receives nearly the same response again and again, and decoding and
encoding them was half the cost of a small request. So the bytes before the batch (its *head*) are looked up
in a table (`produce_heads`), and consecutive requests with one head in a connection's buffer are appended in
one write and answered in one. There is no second codec. A head that is not in the table, a batch that is
rejected, and the first batch of a transaction take the general path through `produce`. Both paths give the
same response to the same bytes (`test_repeated_produce.py`): the conditions besides the batch that
`ProduceAppend.append_batch` checks and that may change between two requests are checked here too.
"""

import struct
from collections.abc import Mapping

from ottla.logstore.batch_validator import ATTRIBUTES_POSITION, may_take_long
from ottla.logstore.record_batch import NO_TIMESTAMP, TRANSACTIONAL_BIT
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.authorization.access import Access
from ottla.node.clock import monotonic_s
from ottla.node.counters.request_counters import SAMPLE_EVERY, SAMPLE_MASK, RequestCounters
from ottla.node.kafka_api.produce_append import FLUSH_TIMEOUT_MS, ProduceAppend
from ottla.node.kafka_api.produce_heads import KnownHead, ProduceHeads
from ottla.node.kafka_api.request_context import ConnectionInfo, RequestContext
from ottla.node.kafka_api.transactional_produce import PRODUCER_AT
from ottla.node.net.answers import Answer, Delayed, Pending, Result, Run
from ottla.node.replica.delayed_produce import RequiredOffset
from ottla.node.replica.partition import Partition
from ottla.node.services import Services
from ottla.node.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse

_producer = struct.Struct(">qh").unpack_from  # id, epoch


class RepeatedProduces:
    """Serves the requests of one version whose heads were seen before."""

    __slots__ = ("_counters", "_services", "_version", "heads")

    def __init__(self, services: Services, version: int, counters: RequestCounters) -> None:
        self._services = services
        self._counters = counters
        self._version = version
        self.heads = ProduceHeads(services, version)

    def serve(
        self, frame: memoryview, correlation_id: int, connection: ConnectionInfo
    ) -> bytes | Pending | ProduceResponse | Delayed[ProduceResponse] | None:
        """Return the response, or None to take the general path.

        It is bytes if the batch is in the log and as safe as its acks demand, `Pending` or `Delayed` if the
        batch must be replicated or flushed first, and a `ProduceResponse` if it is rejected.
        """
        found = self.heads.find(frame)
        services = self._services
        if found is None or services.is_cut_off:
            return None
        known, batch = found
        access = connection.access
        if not (access.is_open or known.is_allowed(access)):
            return None
        acks = known.request.acks
        try:
            partition = services.replica_manager.partition(known.topic_partition)
            now_ms = services.clock.now_ms()
            # As a run of one, which is shorter than the path of batches that may be rejected.
            if places := partition.append_run(
                [batch], required_acks=acks, now_ms=now_ms, produce_version=self._version
            ):
                base_offset, next_offset = places[0]
                log = partition.log
                answer = known.answer_with(correlation_id, base_offset, NO_TIMESTAMP, log.log_start_offset)
                if log.high_watermark >= next_offset if acks == -1 else log.flush_due_from is None:
                    return answer
                return self._wait(known, partition, next_offset, [correlation_id], answer, 0.0)
            if _needs_more_than_an_append(known, batch, partition):
                return None
            result = partition.append_as_leader(
                batch, required_acks=acks, now_ms=now_ms, produce_version=self._version
            )
        except KafkaError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and services.metadata.suspects:
                return None  # it may lead as soon as the metadata have arrived
            append = self._general_append(known, correlation_id, connection)
            topic, index = known.topic_partition
            return _general_answer(append, known, append.failed(topic, index, error, len(batch)))
        base_offset, last_offset, log_append_time_ms, log_start_offset, _ = result
        log = partition.log
        if log.flush_due_from is not None or (acks == -1 and log.high_watermark <= last_offset):
            append = self._general_append(known, correlation_id, connection)
            index = known.topic_partition.partition
            return _general_answer(append, known, append.done(partition, index, result))
        return known.answer_with(correlation_id, base_offset, log_append_time_ms, log_start_offset)

    def serve_run(self, view: memoryview, position: int, end: int, access: Access) -> Run | None:
        """Serve at once the consecutive requests in `view` that have the same head.

        The size of the first one is at `position`. Return None if there are fewer than two, if the first
        batch is not simply appended, or if `access` is not known to allow it: heads are shared by all
        clients.
        """
        found = self.heads.find_run(view, position, end)
        services = self._services
        if found is None or services.is_cut_off:
            return None
        known, batches, correlation_ids, stops = found
        if not (access.is_open or known.is_allowed(access)):
            return None
        counters = self._counters
        counters.runs = count = counters.runs + 1
        began_s = 0.0 if count & SAMPLE_MASK else monotonic_s()
        acks = known.request.acks
        try:
            partition = services.replica_manager.partition(known.topic_partition)
            places = partition.append_run(
                batches,
                required_acks=acks,
                now_ms=services.clock.now_ms(),
                produce_version=self._version,
            )
        except KafkaError:
            return None  # The general path answers each request with the error.
        if not places:
            return None
        taken, next_offset = len(places), places[-1][1]
        counters.requests += taken
        log = partition.log
        answers = known.answers(correlation_ids, places, log.log_start_offset)
        if log.high_watermark >= next_offset if acks == -1 else log.flush_due_from is None:
            if began_s:
                counters.latency.observe(monotonic_s() - began_s, taken * SAMPLE_EVERY)
            # Skips the generated `__new__` with its keywords.
            return tuple.__new__(Run, (stops[taken - 1], taken, [answers]))
        del correlation_ids[taken:]
        pending = self._wait(known, partition, next_offset, correlation_ids, answers, began_s)
        return Run(stops[taken - 1], taken, pending)

    def _wait(
        self,
        known: KnownHead,
        partition: Partition,
        next_offset: int,
        correlation_ids: list[int],
        answers: bytes,
        began_s: float,
    ) -> Pending:
        """Return the answer that waits until the batches of these requests are as safe as their acks demand.

        `next_offset` is the offset after the last of them.
        """
        needs_all = known.request.acks == -1
        required = RequiredOffset(next_offset, partition.leader_epoch, needs_all)
        timeout_ms = known.request.timeout_ms if needs_all else FLUSH_TIMEOUT_MS
        future = self._services.replica_manager.delay_produce({partition: required}, timeout_ms)
        began_s = began_s or monotonic_s()
        latency = self._counters.latency

        def answer(codes: Mapping[Partition, ErrorCode]) -> Answer:
            code = codes[partition]
            latency.observe(monotonic_s() - began_s, len(correlation_ids))
            return [answers if code is ErrorCode.NONE else known.refusals(correlation_ids, code)]

        return Pending(future, answer, is_carried_out=True)

    def learn(
        self,
        frame: memoryview,
        body_at: int,
        context: RequestContext,
        request: ProduceRequest,
        result: Result[ProduceResponse],
        prefix_bytes: int,
    ) -> None:
        """Remember the head of a request whose batch the general path has appended."""
        if _was_taken(request, result):
            self.heads.learn(frame, body_at, context, request, prefix_bytes)

    def _general_append(
        self, known: KnownHead, correlation_id: int, connection: ConnectionInfo
    ) -> ProduceAppend:
        context = RequestContext(
            0, self._version, correlation_id, known.client_id, connection, counters=self._counters
        )
        return ProduceAppend(self._services, context, known.request)


def _needs_more_than_an_append(known: KnownHead, batch: memoryview, partition: Partition) -> bool:
    """Return True if the batch must be opened off the loop, or verified by its transaction coordinator."""
    if batch[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT:
        producer_id, producer_epoch = _producer(batch, PRODUCER_AT)
        if known.request.transactional_id is None or not partition.log.has_ongoing_transaction(
            producer_id, producer_epoch
        ):
            return True
    return may_take_long(batch, partition.log.config)


def _general_answer(
    append: ProduceAppend, known: KnownHead, partition_response: PartitionProduceResponse
) -> ProduceResponse | Delayed[ProduceResponse]:
    answer = append.answer(known.topic_responses(partition_response))
    assert answer is not None, "requests with acks=0 are not remembered"
    return answer


def _was_taken(request: ProduceRequest, result: Result[ProduceResponse]) -> bool:
    """Return True if a request has the usual shape and its one batch is appended, acknowledged or not."""
    if request.acks == 0:
        return False
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
        return False
    if isinstance(result, ProduceResponse):
        return not result.responses[0].partition_responses[0].error_code
    return type(result) is Delayed and result.is_carried_out
