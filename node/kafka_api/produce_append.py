"""One Produce request while its batches are appended, and the response that results."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.logstore.batch_validator import (
    ATTRIBUTES_POSITION,
    MAGIC_POSITION,
    ValidBatch,
    may_take_long,
    most_opened_at_once,
    validate_at_once,
    validate_batch,
)
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import AppendResult
from ottla.logstore.record_batch import COMPRESSION_MASK, HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT
from ottla.logstore.verification import Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.logstore.words.schema import Buffer
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.internal_topics import ADMIN_CLIENT_ID, is_internal_topic
from ottla.node.kafka_api.leader_hints import WRONG_LEADER, leader_hint
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import CloseConnection, Delayed
from ottla.node.replica.delayed_produce import RequiredOffset, later_of
from ottla.node.replica.partition import Partition
from ottla.node.services import Services
from ottla.node.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.node.work.fair_pool import Allowance, Pause
from ottla.node.work.opened_batches import HeldBatch
from ottla.node.work.turns import Steps, Turn

NO_OFFSET = -1
# The time for which acks=1 waits for a flush. The timeout of the client is for replicas and may be a few
# milliseconds; Apache Kafka waits for a disk without a limit.
FLUSH_TIMEOUT_MS = 30_000
# Smaller uncompressed batches are checked quickly whatever the topic's settings demand.
MIN_LOOKED_AT_BYTES = 8 * 1024
# The bytes of one request that are checked on the loop, in some two milliseconds at worst; the rest is
# checked off it. A compressed batch counts by the bytes that it may decompress to.
AT_ONCE_BYTES = 2 * 1024 * 1024
# Limits for decompressing, checking and recompressing all batches of one request together: three times the
# CPU time of one batch, and 8 GiB of decompressed bytes.
MAX_CPU_S = 30.0
MAX_STEPS = 32 * 1024
_ZERO_RESPONSE = PartitionProduceResponse()
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
# Not counted as Kafka's failed requests, which indicate a fault of the broker.
USUAL_REFUSALS = TOO_LARGE | {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


def is_transactional(records: Buffer | None) -> bool:
    """Return True if a batch belongs to a transaction."""
    if records is None or len(records) <= ATTRIBUTES_POSITION:
        return False
    # Older formats have something else at this position, and are rejected for their magic.
    return records[MAGIC_POSITION] == MAGIC and records[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT != 0


def _no_id() -> KafkaError:
    """Return the error of a request without a transactional id that has a transactional batch.

    Nothing of such a request is appended, not even batches outside of transactions.
    """
    return KafkaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "A batch is transactional, but the request has no transactional id.",
    )


def _pausing(validate: "partial[ValidBatch]") -> Callable[[Pause], ValidBatch]:
    return lambda pause: validate(pause=pause)


class ProduceAppend:
    """One Produce request while its batches are appended."""

    __slots__ = (
        "_acks",
        "_at_once_bytes",
        "_context",
        "_endpoints",
        "_first_error",
        "_held",
        "_located",
        "_opened",
        "_refusal",
        "_required",
        "_services",
        "_timeout_ms",
        "now_ms",
    )

    def __init__(self, services: Services, context: RequestContext, request: ProduceRequest) -> None:
        self._services = services
        self._context = context
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._refusal: KafkaError | None = None
        self.now_ms = services.clock.now_ms()
        self._first_error: KafkaError | None = None
        self._endpoints: dict[int, NodeEndpoint] | None = None  # of leaders that the client did not know
        # Offsets to wait for until they are replicated, or flushed.
        self._required: dict[Partition, RequiredOffset] = {}
        self._located: list[tuple[Partition, PartitionProduceResponse]] = []
        # Batches that were validated beforehand, or their errors, by the id() of the received buffer.
        self._opened: dict[int, ValidBatch | KafkaError] = {}
        self._held: list[HeldBatch] = []  # memory of batches that were recompressed
        self._at_once_bytes = AT_ONCE_BYTES

    def steps_to_open(self, request: ProduceRequest) -> Steps[list[tuple[Buffer, LogConfig]]]:
        """Return the batches of the request that would block the loop; validate the other compressed ones.

        If one belongs to a transaction that the request does not name, all are rejected.
        """
        found: list[tuple[Buffer, LogConfig]] = []
        has_id = request.transactional_id is not None
        for topic in request.topic_data:
            for data in topic.partition_data:
                yield
                records = data.records
                if not has_id and is_transactional(records):
                    self._refusal = _no_id()
                if records is None or (
                    len(records) < MIN_LOOKED_AT_BYTES
                    and (len(records) < HEADER_SIZE or not records[ATTRIBUTES_POSITION] & COMPRESSION_MASK)
                ):
                    continue
                name = self.name_of(topic)
                if name is None or not self._may_write(name):
                    continue
                partition = self._services.replica_manager.find((name, data.index))
                if partition is None:
                    continue
                config = partition.log.config
                takes_long = may_take_long(records, config)
                self._at_once_bytes -= most_opened_at_once(records) if takes_long else len(records)
                if self._at_once_bytes >= 0 and (not takes_long or self._open_at_once(records, config)):
                    continue
                if takes_long or config.opens_records:
                    found.append((records, config))
        return found

    def _open_at_once(self, records: Buffer, config: LogConfig) -> bool:
        """Validate a batch as `validate_batch` does, unless it would block the loop; return True if done."""
        try:
            valid = validate_at_once(
                records, config=config, now_ms=self.now_ms, produce_version=self._context.api_version
            )
        except KafkaError as error:
            self._opened[id(records)] = kept(error)
            return True
        if valid is not None:
            self._opened[id(records)] = valid
        return valid is not None

    async def open_all(self, to_open: Sequence[tuple[Buffer, LogConfig]]) -> None:
        """Run `validate_batch` in a thread, for one batch of the request after the other.

        It ends with GivenUp if the client has disconnected. Batches that are left when the allowance of the
        request is used up are rejected with REQUEST_TIMED_OUT, which producers retry.
        """
        allowance = Allowance(cpu_s=MAX_CPU_S, steps=MAX_STEPS)
        turn = Turn()  # batches that are rejected at once wait for nothing
        for records, config in to_open:
            await turn.step()
            validate = partial(
                validate_batch,
                records,
                config=config,
                now_ms=self.now_ms,
                produce_version=self._context.api_version,
            )
            try:
                # With acks=0 a client may disconnect as soon as it has sent its request.
                valid = await self._services.batch_pool.submit(
                    self._context.connection,
                    _pausing(validate),
                    allowance=allowance,
                    outlives_client=self._acks == 0,
                )
                if (valid.header.attributes ^ records[ATTRIBUTES_POSITION]) & COMPRESSION_MASK:
                    self._held.append(self._services.opened_batches.hold(len(valid.batch)))
                self._opened[id(records)] = valid
            except KafkaError as error:
                self._opened[id(records)] = kept(error)

    def name_of(self, topic: TopicProduceData) -> str | None:
        """Return the name of a topic of the request, or None if its id is unknown."""
        if self._context.api_version < 13:
            return topic.name
        topic_image = self._services.metadata.image.topics.by_id.get(topic.topic_id)
        return topic_image.name if topic_image is not None else None

    def append_batch(
        self,
        topic: str | None,
        index: int,
        records: Buffer | None,
        verdict: Guard | KafkaError | None = None,
    ) -> PartitionProduceResponse:
        """Append one batch; return its part of the response, which may be an error.

        `verdict` is the answer of the transaction coordinator: a guard to append the batch with, or the
        reason why it is rejected.
        """
        if verdict is not None and isinstance(verdict, KafkaError):
            return self.failed(topic, index, verdict)
        try:
            if self._refusal is not None:
                raise self._refusal
            partition = self.partition_to_write(topic, index)
            if records is None:
                raise KafkaError(ErrorCode.INVALID_RECORD, "The records of the partition are null.")
            valid = self._opened.get(id(records)) if self._opened else None
            if isinstance(valid, KafkaError):
                raise valid
            result = partition.append_as_leader(
                records,
                required_acks=self._acks,
                now_ms=self.now_ms,
                produce_version=self._context.api_version,
                guard=verdict,
                valid=valid,
            )
        except KafkaError as error:
            return self.failed(topic, index, error, 0 if records is None else len(records))
        return self.done(partition, index, result)

    def partition_to_write(self, topic: str | None, index: int) -> Partition:
        """Return the partition; raise KafkaError if this request may not write to it on this node."""
        acks = self._acks
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not self._may_write(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if not -1 <= acks <= 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}, but must be -1 (all), 0 or 1."
            )
        if self._services.is_cut_off:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                "The controller cannot be reached, so this broker accepts no records.",
            )
        if is_internal_topic(topic) and not self._may_write_internal_topics():
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients cannot write to the internal topic {topic}."
            )
        return self._services.replica_manager.partition((topic, index))

    def _may_write(self, topic: str) -> bool:
        access = self._context.access
        return access.is_open or access.allows(AclOperation.WRITE, ResourceType.TOPIC, topic)

    def _may_write_internal_topics(self) -> bool:
        """Return True for an administrator's tool: coordinators trust all records of internal topics."""
        context = self._context
        return context.client_id == ADMIN_CLIENT_ID and self._services.administrators.allows(
            context.connection, AclOperation.CLUSTER_ACTION
        )

    def done(self, partition: Partition, index: int, result: AppendResult) -> PartitionProduceResponse:
        """Return the part of the response for a partition whose batch is in the log."""
        base_offset, last_offset, log_append_time_ms, log_start_offset, _ = result
        response = PartitionProduceResponse(
            index=index,
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
        )
        log, needs_all = partition.log, self._acks == -1
        if log.high_watermark <= last_offset if needs_all else log.flush_due_from is not None:
            required = RequiredOffset(last_offset + 1, partition.leader_epoch, needs_all)
            self._required[partition] = later_of(self._required.get(partition), required)
            self._located.append((partition, response))
        return response

    def answer(
        self, responses: list[TopicProduceResponse]
    ) -> ProduceResponse | Delayed[ProduceResponse] | None:
        """Return the result of the handler once all batches have been tried; None with acks=0.

        With acks=0 it raises CloseConnection if a batch was rejected.
        """
        self._opened.clear()
        self._held.clear()
        if self._acks == 0:
            if self._first_error is not None:
                raise CloseConnection(f"Produce with acks=0 failed: {self._first_error}")
            return None
        response = ProduceResponse(responses=responses, node_endpoints=[*(self._endpoints or {}).values()])
        if self._required:
            timeout_ms = self._timeout_ms if self._acks == -1 else FLUSH_TIMEOUT_MS
            future = self._services.replica_manager.delay_produce(self._required, timeout_ms)
            return Delayed(future, lambda codes: _with_codes(response, self._located, codes), True)
        return response

    def _count_failure(self, topic: str | None, code: ErrorCode, size_bytes: int) -> None:
        if self._context.counters is not None:
            self._context.counters.count_error(code)
        counters = self._services.replica_manager.counters_of(topic) if topic is not None else None
        if counters is None:
            return
        if code not in USUAL_REFUSALS:
            counters.failed_produce_requests += 1
        elif code in TOO_LARGE:
            counters.bytes_rejected += size_bytes

    def failed(
        self, topic: str | None, index: int, error: KafkaError, size_bytes: int = 0
    ) -> PartitionProduceResponse:
        """Return the part of the response for a partition whose batch, of `size_bytes`, is rejected."""
        if self._first_error is None:
            self._first_error = error
        self._count_failure(topic, error.code, size_bytes)
        current_leader = _ZERO_RESPONSE.current_leader
        if error.code in WRONG_LEADER and topic is not None:
            hint = leader_hint(self._services, self._context.connection, topic, index)
            if hint is not None:
                current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
                endpoint = NodeEndpoint(
                    node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack
                )
                self._endpoints = {**(self._endpoints or {}), hint.leader_id: endpoint}
        record_errors = [
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
            for batch_index, message in getattr(error, "record_errors", ())
        ]
        return PartitionProduceResponse(
            index=index,
            error_code=error.code,
            base_offset=NO_OFFSET,
            record_errors=record_errors,
            error_message=error.detail or None,
            current_leader=current_leader,
        )


def _with_codes(
    response: ProduceResponse,
    located: list[tuple[Partition, PartitionProduceResponse]],
    codes: Mapping[Partition, ErrorCode],
) -> ProduceResponse:
    """Return the response after the wait, with the errors of batches that were not replicated in time."""
    failed = {
        id(partition_response): codes[partition]
        for partition, partition_response in located
        if codes.get(partition, ErrorCode.NONE) is not ErrorCode.NONE
    }
    return ProduceResponse(
        node_endpoints=response.node_endpoints,
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=one.index, error_code=failed[id(one)], base_offset=NO_OFFSET
                    )
                    if id(one) in failed
                    else one
                    for one in topic.partition_responses
                ],
            )
            for topic in response.responses
        ],
    )
