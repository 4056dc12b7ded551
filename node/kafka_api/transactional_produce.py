"""Produce in a transaction: the coordinator is asked before the first batch of it goes into a log (KIP-890).

To 11 the client must have added the partition to its transaction; from 12 on this adds it. The request
waits for the coordinator as a whole, as in Apache Kafka, so that what a producer sends stays in order.
"""

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ottla.logstore.batch_validator import ATTRIBUTES_POSITION, MAGIC_POSITION
from ottla.logstore.errors import ErrorCode, KafkaError
from ottla.logstore.record_batch import HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT
from ottla.logstore.schema import Buffer
from ottla.logstore.topic_partition import TopicPartition
from ottla.logstore.verification import NOT_VERIFIED, Guard
from ottla.node.coordinators.txn_gate import Codes, code_for_client
from ottla.node.kafka_api.produce_append import ProduceAppend
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed
from ottla.node.services import Services
from ottla.node.wire.messages.produce import PartitionProduceResponse, ProduceRequest, TopicProduceResponse
from ottla.node.work.turns import Steps, in_turns

FIRST_VERSION_WITH_ABORTABLE: Final = 11
FIRST_VERSION_THAT_ADDS: Final = 12
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
PRODUCER_AT: Final = 43
_UNREACHABLE: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)


class _Part:
    """One partition of the request, and what it needs before it is appended to."""

    __slots__ = ("asked", "guard", "index", "producer", "records", "refused", "topic")

    def __init__(self, topic: str | None, index: int, records: Buffer | None) -> None:
        self.topic = topic
        self.index = index
        self.records = records
        self.producer = _producer_of(records)  # where the batch belongs to a transaction
        self.guard: Guard | None = None  # to append with
        self.asked: TopicPartition | None = None  # once the coordinator has said yes to this
        self.refused: KafkaError | None = None

    def prepare(self, append: ProduceAppend, *, bumps_epoch: bool, is_asked: bool) -> None:
        """Find out whether the coordinator has to be asked, or why not."""
        assert self.producer is not None
        try:
            guard = append.partition_to_write(self.topic, self.index).begin_verification(
                *self.producer, bumps_epoch=bumps_epoch, now_ms=append.now_ms
            )
        except KafkaError as error:
            self.refused = error
            return
        if guard is None:
            return
        assert self.topic is not None
        self.guard = guard if is_asked else NOT_VERIFIED
        self.asked = TopicPartition(self.topic, self.index) if is_asked else None


def handle(
    services: Services, context: RequestContext, request: ProduceRequest, append: ProduceAppend
) -> Any:
    """The answer to a request with a transactional id."""
    return in_turns(_steps(services, context, request, append), is_large=context.is_large)


def _steps(
    services: Services, context: RequestContext, request: ProduceRequest, append: ProduceAppend
) -> Steps[Any]:
    transactional_id = request.transactional_id
    assert transactional_id is not None
    rows: list[list[_Part]] = []
    for topic in request.topic_data:
        name = append.name_of(topic)
        rows.append([_Part(name, data.index, data.records) for data in topic.partition_data])
    parts = [part for row in rows for part in row if part.producer is not None]
    producers = {part.producer[:2] for part in parts if part.producer is not None}
    adds = context.api_version >= FIRST_VERSION_THAT_ADDS
    if len(producers) > 1:
        for part in (part for row in rows for part in row):
            part.refused = KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "Transactional records contained more than one producer ID",
            )
    else:
        is_asked = adds or services.config.transaction_partition_verification_enable
        for part in parts:
            part.prepare(append, bumps_epoch=adds, is_asked=is_asked)
            yield
    asked = [part.asked for part in parts if part.asked is not None]
    go_on = partial(_appended, context, request, append, rows)
    if not asked:
        return in_turns(go_on({}), is_large=context.is_large)
    ((producer_id, producer_epoch),) = producers
    codes = services.txn_gate.admit(transactional_id, producer_id, producer_epoch, asked, adds=adds)
    return Delayed(codes, lambda codes: in_turns(go_on(codes), is_large=context.is_large))


def _appended(
    context: RequestContext,
    request: ProduceRequest,
    append: ProduceAppend,
    rows: Sequence[Sequence[_Part]],
    codes: Codes,
) -> Steps[Any]:
    """The coordinator has answered, or there was nothing to ask."""
    responses: list[TopicProduceResponse] = []
    for topic, row in zip(request.topic_data, rows, strict=True):
        answers: list[PartitionProduceResponse] = []
        for part in row:
            refused = part.refused
            if part.asked is not None:
                refused = refusal(codes[part.asked], context.api_version)
            if refused is None:
                answers.append(append.partition(part.topic, part.index, part.records, part.guard))
            else:
                answers.append(append.failed(part.topic, part.index, refused))
            yield
        if answers:
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )
    return append.answer(responses)


def _producer_of(records: Buffer | None) -> tuple[int, int, int] | None:
    """Id, epoch and sequence of a batch that belongs to a transaction; None for another one."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    if records[MAGIC_POSITION] != MAGIC or not records[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT:
        return None
    producer_id, producer_epoch, base_sequence = _PRODUCER.unpack_from(records, PRODUCER_AT)
    # Without a sequence it is refused, and must not be the lowest one that asks.
    is_whole = producer_id >= 0 and base_sequence >= 0
    return (producer_id, producer_epoch, base_sequence) if is_whole else None


def refusal(code: ErrorCode, version: int) -> KafkaError | None:
    """What a client of this version is told of the coordinator's word; None: append.

    That nobody answered for it, or that the one before is being ended, is told as something that every
    client tries again.
    """
    if code is ErrorCode.NONE:
        return None
    code = code_for_client(code, knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE)
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    is_ending = code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_ADDS
    if is_ending or code in _UNREACHABLE:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction."
            f" Underlying error: {code.name}",
        )
    return KafkaError(code)
