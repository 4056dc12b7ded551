"""AddOffsetsToTxn: adds the offsets of a group to a transaction, as the partition that stores them."""

from typing import Final

from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.transactions.transaction import CLIENT_V1, ProducerPair
from ottla.groupcoord.transactions.transaction_commands import AddPartitions
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.node.wire.request_limits import GROUP, NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 4),
    asks=Asks(
        by_handler=(
            (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.READ, ResourceType.GROUP),
        )
    ),
    limits=RequestLimits(SEVERAL, {"transactional_id": NAME, "group_id": GROUP}),
)

FIRST_FENCED_VERSION = 2  # older clients know INVALID_PRODUCER_EPOCH only


def handle(
    services: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Result[AddOffsetsToTxnResponse]:
    version = context.api_version
    access = context.access
    access.check(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    partition = TopicPartition(OFFSETS_TOPIC, services.groups.partition_for(request.group_id))

    def build(answer: object) -> AddOffsetsToTxnResponse:
        code = answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
        if code is ErrorCode.PRODUCER_FENCED and version < FIRST_FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=code)

    return services.txns.ask(
        request.transactional_id,
        lambda token: AddPartitions(
            token=token,
            transactional_id=request.transactional_id,
            producer=ProducerPair(request.producer_id, request.producer_epoch),
            partitions=frozenset((partition,)),
            client_version=CLIENT_V1,
            may_wait=True,
        ),
        build,
        keeps_nothing=True,
    )
