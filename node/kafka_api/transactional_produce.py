"""Produce in a transaction: the coordinator verifies it before its first batch goes into a log (KIP-890).

Up to version 11 the client must have added the partition to its transaction; from 12 on Produce adds it. The
whole request waits for the coordinator, as in Apache Kafka, so that the batches of a producer stay in order.
"""

import struct
from collections.abc import Awaitable, Sequence
from typing import Final, TypeAlias

from ottla.logstore.record_batch import HEADER_SIZE
from ottla.logstore.verification import NOT_VERIFIED, Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.txn_gate import Codes, code_for_client
from ottla.node.kafka_api.produce_append import ProduceAppend, is_transactional
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.produce import PartitionProduceData, ProduceRequest
from ottla.node.work.turns import Steps

FIRST_VERSION_WITH_ABORTABLE: Final = 11
FIRST_VERSION_THAT_ADDS: Final = 12
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
PRODUCER_AT: Final = 43  # the position of these fields in a batch
# The guard to append a batch with (None: it needs none), or the reason why the batch is rejected.
Verdict: TypeAlias = Guard | KafkaError | None
_UNREACHABLE: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)


class Part:
    """One partition of the request, and the verification of its batch before the append."""

    __slots__ = ("data", "error", "guard", "producer", "to_verify", "topic")

    def __init__(self, topic: str | None, data: PartitionProduceData) -> None:
        self.topic = topic
        self.data = data
        self.producer = _producer_of(data.records)  # if the batch belongs to a transaction
        self.guard: Guard | None = None  # to append with
        self.to_verify: TopicPartition | None = None  # if the coordinator must confirm this partition
        self.error: KafkaError | None = None  # if the batch is rejected

    def prepare(self, append: ProduceAppend, *, bumps_epoch: bool, is_verified: bool) -> None:
        """Decide if the coordinator must be asked about the partition, or if the batch is rejected already.

        If not `is_verified`, verification is disabled, and the batch is appended unverified.
        """
        assert self.producer is not None
        try:
            guard = append.partition_to_write(self.topic, self.data.index).begin_verification(
                *self.producer, bumps_epoch=bumps_epoch, now_ms=append.now_ms
            )
        except KafkaError as error:
            self.error = kept(error)
            return
        if guard is None:
            return
        assert self.topic is not None
        self.guard = guard if is_verified else NOT_VERIFIED
        self.to_verify = TopicPartition(self.topic, self.data.index) if is_verified else None


def prepare_parts(
    services: Services, context: RequestContext, request: ProduceRequest, append: ProduceAppend
) -> Steps[list[Part]]:
    """Return the partitions of a request that have transactional batches, prepared for `ask` and `verdicts`.

    If the batches have several producers, all partitions of the request are returned, and all are rejected.
    """
    parts: list[Part] = []
    for topic in request.topic_data:
        name = append.name_of(topic)
        parts += [Part(name, data) for data in topic.partition_data]
    of_transactions = [part for part in parts if part.producer is not None]
    adds = context.api_version >= FIRST_VERSION_THAT_ADDS
    if len({part.producer[:2] for part in of_transactions if part.producer is not None}) > 1:
        for part in parts:
            part.error = KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "Transactional records contained more than one producer ID",
            )
        return parts
    is_verified = adds or services.config.transaction_partition_verification_enable
    for part in of_transactions:
        part.prepare(append, bumps_epoch=adds, is_verified=is_verified)
        yield
    return of_transactions


def ask(
    services: Services, context: RequestContext, transactional_id: str, parts: Sequence[Part]
) -> Awaitable[Codes] | None:
    """Ask the coordinator of the transaction; return its answers, or None if there is nothing to ask."""
    unverified = [part for part in parts if part.to_verify is not None]
    if not unverified or unverified[0].producer is None:
        return None
    producer_id, producer_epoch, _ = unverified[0].producer
    return services.txn_gate.add_or_verify(
        transactional_id,
        producer_id,
        producer_epoch,
        [part.to_verify for part in unverified if part.to_verify is not None],
        adds=context.api_version >= FIRST_VERSION_THAT_ADDS,
    )


def verdicts(parts: Sequence[Part], codes: Codes, context: RequestContext) -> dict[int, Verdict]:
    """Return the verdict on each batch, by the id() of its partition's data.

    `codes` are the answers of the coordinator, empty if there was nothing to ask.
    """
    found: dict[int, Verdict] = {}
    for part in parts:
        error = part.error
        if part.to_verify is not None:
            error = refusal(codes[part.to_verify], context.api_version)
        found[id(part.data)] = part.guard if error is None else error
    return found


def _producer_of(records: Buffer | None) -> tuple[int, int, int] | None:
    """Return the producer id, epoch and base sequence of a transactional batch.

    None for any other batch, and for one without a producer id or a sequence.
    """
    if records is None or len(records) < HEADER_SIZE or not is_transactional(records):
        return None
    producer_id, producer_epoch, base_sequence = _PRODUCER.unpack_from(records, PRODUCER_AT)
    # A batch without a sequence is rejected, and its sequence must not count as the lowest one.
    has_sequence = producer_id >= 0 and base_sequence >= 0
    return (producer_id, producer_epoch, base_sequence) if has_sequence else None


def refusal(code: ErrorCode, version: int) -> KafkaError | None:
    """Return the error for a client of this Produce version after the coordinator's answer; None after NONE.

    If no coordinator answered, or a previous transaction is still ending (before version 12), it is an error
    that every client retries.
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
