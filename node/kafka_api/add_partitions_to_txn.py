"""AddPartitionsToTxn: partitions become part of a transaction, or a leader asks whether they are.

Up to 3 it comes from clients, about one transaction. Since 4 it comes from leaders of partitions (KIP-890),
about many: `verify_only` asks before the first records of a client that announced them itself, else the
partition is added for a client that does not.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2, ProducerPair
from groupcoord.transactions.transaction_commands import AddPartitions, VerifyPartitions
from groupcoord.transactions.transaction_results import VerifyPartitionsResult
from logstore.errors import ErrorCode, KafkaError
from logstore.topic_partition import TopicPartition
from metadata_raft.image import MetadataImage
from node.kafka_api.request_context import RequestContext
from node.runtime.txn_runtime import Make
from node.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from node.broker import Broker

FIRST_FENCED_VERSION = 2  # clients before know INVALID_PRODUCER_EPOCH only
FIRST_BATCH_VERSION = 4

Topics = Sequence[AddPartitionsToTxnTopic]


def handle(broker: "Broker", context: RequestContext, request: AddPartitionsToTxnRequest) -> Any:
    version = context.api_version
    if version >= FIRST_BATCH_VERSION:
        return _handle_batch(broker, request.transactions)
    topics = request.v3_and_below_topics
    unknown = _unknown_partitions(broker.metadata.image, topics)
    if unknown:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_refused(topics, unknown))
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=topics,
    )

    def build(answer: Any) -> AddPartitionsToTxnResponse:
        code = answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
        if code is ErrorCode.PRODUCER_FENCED and version < FIRST_FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_alike(topics, code))

    return broker.txns.ask(one.transactional_id, _make(one, CLIENT_V1, may_wait=True), build)


def _handle_batch(broker: "Broker", transactions: Sequence[AddPartitionsToTxnTransaction]) -> Any:
    image = broker.metadata.image
    # By the place in the request: a transaction may be in it twice.
    refused: dict[int, list[AddPartitionsToTxnTopicResult]] = {}
    asked: list[tuple[str, Make]] = []
    for place, one in enumerate(transactions):
        unknown = _unknown_partitions(image, one.topics)
        if unknown:
            refused[place] = _refused(one.topics, unknown)
        else:
            # Nobody waits here for markers: that would keep the answers to all others.
            asked.append((one.transactional_id, _make(one, CLIENT_V2, may_wait=False)))

    def build(answers: Sequence[Any]) -> AddPartitionsToTxnResponse:
        left = iter(answers)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=refused[place] if place in refused else _results(one, next(left)),
                )
                for place, one in enumerate(transactions)
            ]
        )

    return broker.txns.ask_each(asked, build)


def _make(one: AddPartitionsToTxnTransaction, client_version: int, *, may_wait: bool) -> Make:
    producer = ProducerPair(one.producer_id, one.producer_epoch)
    partitions = frozenset(
        TopicPartition(topic.name, index) for topic in one.topics for index in topic.partitions
    )
    if one.verify_only:
        return lambda token: VerifyPartitions(
            token=token, transactional_id=one.transactional_id, producer=producer, partitions=partitions
        )
    return lambda token: AddPartitions(
        token=token,
        transactional_id=one.transactional_id,
        producer=producer,
        partitions=partitions,
        client_version=client_version,
        may_wait=may_wait,
    )


def _unknown_partitions(image: MetadataImage, topics: Topics) -> set[TopicPartition]:
    by_name = image.topics.by_name
    return {
        TopicPartition(topic.name, index)
        for topic in topics
        for index in topic.partitions
        if topic.name not in by_name or not 0 <= index < len(by_name[topic.name].partitions)
    }


def _refused(topics: Topics, unknown: set[TopicPartition]) -> list[AddPartitionsToTxnTopicResult]:
    """One partition that there is not, and none is added."""
    return _by_partition(
        topics,
        lambda each: (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED
        ),
    )


def _results(one: AddPartitionsToTxnTransaction, answer: Any) -> list[AddPartitionsToTxnTopicResult]:
    if isinstance(answer, KafkaError):
        return _alike(one.topics, answer.code)
    if isinstance(answer, VerifyPartitionsResult):
        return _by_partition(one.topics, answer.errors.__getitem__)
    return _alike(one.topics, ErrorCode.NONE)


def _alike(topics: Topics, code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    return _by_partition(topics, lambda each: code)


def _by_partition(topics: Topics, code_of: Any) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code_of(TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
