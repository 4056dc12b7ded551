"""AddPartitionsToTxn: adds partitions to a transaction, or verifies that they belong to it.

Versions up to 3 come from clients, for one transaction. Since 4 the request comes from leaders of partitions
(KIP-890), for many transactions: with `verify_only` the leader verifies the first batch of a client that has
added the partition itself, otherwise it adds the partition for its client. Clients cannot add internal
topics.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2, ProducerPair
from ottla.groupcoord.transactions.transaction_commands import AddPartitions, VerifyPartitions
from ottla.groupcoord.transactions.transaction_results import VerifyPartitionsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, ResourceType
from ottla.metadata_raft.image import INTERNAL_TOPICS, MetadataImage
from ottla.node.authorization.access import Access
from ottla.node.coordinators.txn_runtime import Make
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, Result
from ottla.node.services import Services
from ottla.node.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, NAME, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, in_turns

API: Final = ApiDescription(
    versions=(0, 5),
    asks=Asks(
        by_handler=(
            (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.WRITE, ResourceType.TOPIC),
            (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        )
    ),
    limits=RequestLimits(
        MANY_PARTITIONS,
        {
            "transactions.transactional_id": NAME,
            "transactions.topics.name": TOPIC,
            "v3_and_below_transactional_id": NAME,
            "v3_and_below_topics.name": TOPIC,
        },
    ),
    echoes=(
        Echo(
            "v3_and_below_topics",
            "results_by_topic_v3_and_below",
            ("name",),
            Echo("partitions", "results_by_partition", ("partition_index",)),
        ),
    ),
)

FIRST_FENCED_VERSION = 2  # older clients know INVALID_PRODUCER_EPOCH only
FIRST_BATCH_VERSION = 4

Topics = Sequence[AddPartitionsToTxnTopic]
CodeOf = Callable[[TopicPartition], ErrorCode]
Refused = dict[TopicPartition, ErrorCode]


def handle(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Result[AddPartitionsToTxnResponse]:
    if context.api_version >= FIRST_BATCH_VERSION:
        context.access.check(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    else:
        transactional_id = request.v3_and_below_transactional_id
        context.access.check(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    steps = _ask_for_many if context.api_version >= FIRST_BATCH_VERSION else _ask_for_one
    return in_turns(steps(services, context, request), is_large=context.is_large)


# ---- requests of clients -----------------------------------------------------------------------------------


def _ask_for_one(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Steps[Result[AddPartitionsToTxnResponse]]:
    version, topics = context.api_version, request.v3_and_below_topics
    transactional_id = request.v3_and_below_transactional_id
    producer = ProducerPair(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    partitions, refused = yield from _look_up(
        services.metadata.image, topics, lambda name: _may_add(context.access, name)
    )

    def finish(code_of: CodeOf) -> Result[AddPartitionsToTxnResponse]:
        def make() -> AddPartitionsToTxnResponse:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_partition(topics, code_of))

        return BuiltInThread(make) if context.is_large else make()

    def build(outcome: object) -> Result[AddPartitionsToTxnResponse]:
        code = outcome.code if isinstance(outcome, KafkaError) else ErrorCode.NONE
        if code is ErrorCode.PRODUCER_FENCED and version < FIRST_FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return finish(lambda each: code)

    if refused:
        return finish(_refusal(refused))
    make = _add(transactional_id, producer, partitions, CLIENT_V1, may_wait=True)
    return services.txns.ask(transactional_id, make, build)


# ---- requests of leaders -----------------------------------------------------------------------------------


def _ask_for_many(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Steps[Result[AddPartitionsToTxnResponse]]:
    transactions = request.transactions
    # By the position in the request, which may have a transaction twice.
    refused: dict[int, Refused] = {}
    commands: list[tuple[str, Make]] = []
    for place, one in enumerate(transactions):
        partitions, unknown = yield from _look_up(services.metadata.image, one.topics, lambda name: True)
        producer = ProducerPair(one.producer_id, one.producer_epoch)
        if unknown:
            refused[place] = unknown
        elif one.verify_only:
            commands.append((one.transactional_id, _verify(one.transactional_id, producer, partitions)))
        else:
            # Does not wait for markers: that would delay the answers to all other transactions.
            make = _add(one.transactional_id, producer, partitions, CLIENT_V2, may_wait=False)
            commands.append((one.transactional_id, make))

    def build(answers: Sequence[object]) -> AddPartitionsToTxnResponse:
        left = iter(answers)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=_by_partition(
                        one.topics, _refusal(refused[place]) if place in refused else _codes(next(left))
                    ),
                )
                for place, one in enumerate(transactions)
            ]
        )

    return services.txns.ask_each(commands, build, is_large=context.is_large)


def _codes(answer: object) -> CodeOf:
    if isinstance(answer, VerifyPartitionsResult):
        return answer.errors.__getitem__
    code = answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
    return lambda each: code


# ---- common to both ----------------------------------------------------------------------------------------


def _look_up(
    image: MetadataImage, topics: Topics, may_add: Callable[[str], bool]
) -> Steps[tuple[set[TopicPartition], Refused]]:
    """Return the partitions of the request, and those of them that cannot be added, with the error."""
    partitions: set[TopicPartition] = set()
    refused: Refused = {}
    for topic in topics:
        known = image.topics.by_name.get(topic.name)
        count = 0 if known is None else len(known.partitions)
        is_allowed = may_add(topic.name)
        for index in topic.partitions:
            partition = TopicPartition(topic.name, index)
            partitions.add(partition)
            if not is_allowed:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= index < count:
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield
    return partitions, refused


def _may_add(access: Access, topic: str) -> bool:
    """Return True if a client may add partitions of a topic; coordinators add those of internal topics."""
    return topic not in INTERNAL_TOPICS and access.allows(AclOperation.WRITE, ResourceType.TOPIC, topic)


def _refusal(refused: Refused) -> CodeOf:
    """Return the errors if one partition cannot be added: then none is."""
    return lambda each: refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED)


def _add(
    transactional_id: str,
    producer: ProducerPair,
    partitions: set[TopicPartition],
    client_version: int,
    *,
    may_wait: bool,
) -> Make:
    return lambda token: AddPartitions(
        token=token,
        transactional_id=transactional_id,
        producer=producer,
        partitions=partitions,
        client_version=client_version,
        may_wait=may_wait,
    )


def _verify(transactional_id: str, producer: ProducerPair, partitions: set[TopicPartition]) -> Make:
    return lambda token: VerifyPartitions(
        token=token, transactional_id=transactional_id, producer=producer, partitions=partitions
    )


def _by_partition(topics: Topics, code_of: CodeOf) -> list[AddPartitionsToTxnTopicResult]:
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
