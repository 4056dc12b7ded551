"""InitProducerId: returns an id and an epoch for a producer.

Without a transactional id the response has an unused id; a producer that has one and asks again gets another
one, as from Apache Kafka: its sequence numbers start over. With a transactional id the coordinator answers,
and the previous producer with that id is fenced. Since 3 a producer may send its id and epoch; one without
the other is invalid. Since 6 (not final in Apache Kafka) an external coordinator may end its transactions
(KIP-939).
"""

from typing import Final

from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.groupcoord.transactions.transaction_commands import InitProducer
from ottla.groupcoord.transactions.transaction_results import InitProducerResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 5),
    asks=Asks(
        by_handler=(
            (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
            (AclOperation.WRITE, ResourceType.TOPIC),
        )
    ),
    limits=RequestLimits(SEVERAL, {"transactional_id": NAME}),
    unstable_version=6,
    old_ids=("transactional_id",),
)

NONE = -1
FIRST_FENCED_VERSION = 4  # older clients know INVALID_PRODUCER_EPOCH only


def handle(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> Result[InitProducerIdResponse]:
    refusal = _refusal(context.access, request)
    if refusal is not None:
        return _refused(refusal)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _new_id(services)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    return _ask_coordinator(services, request.transactional_id, request, context.api_version)


def _refusal(access: Access, request: InitProducerIdRequest) -> ErrorCode | None:
    """Return the error of a client that may not have a producer id, or None if it may."""
    transactional_id = request.transactional_id
    if transactional_id is None:
        # The denial of the last check is the one that is logged.
        may_write = access.allows_somewhere(
            AclOperation.WRITE, ResourceType.TOPIC
        ) or access.allows_of_cluster(AclOperation.IDEMPOTENT_WRITE)
        return None if may_write else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    operations = (
        [AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT] if request.enable2_pc else [AclOperation.WRITE]
    )
    if all(access.allows(one, ResourceType.TRANSACTIONAL_ID, transactional_id) for one in operations):
        return None
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def _new_id(services: Services) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await services.producer_ids.next(), producer_epoch=0)
    except KafkaError as error:
        return _refused(error.code)


def _ask_coordinator(
    services: Services, transactional_id: str, request: InitProducerIdRequest, version: int
) -> Result[InitProducerIdResponse]:
    expected = None
    if request.producer_id != NONE:
        expected = ProducerPair(request.producer_id, request.producer_epoch)
    timeout_ms, enable_2pc, keep = (
        request.transaction_timeout_ms,
        request.enable2_pc,
        request.keep_prepared_txn,
    )

    def build(answer: InitProducerResult | KafkaError) -> InitProducerIdResponse:
        if isinstance(answer, KafkaError):
            if answer.code is ErrorCode.PRODUCER_FENCED and version < FIRST_FENCED_VERSION:
                return _refused(ErrorCode.INVALID_PRODUCER_EPOCH)
            return _refused(answer.code)
        ongoing = answer.ongoing or ProducerPair(NONE, NONE)
        return InitProducerIdResponse(
            producer_id=answer.producer.producer_id,
            producer_epoch=answer.producer.producer_epoch,
            ongoing_txn_producer_id=ongoing.producer_id,
            ongoing_txn_producer_epoch=ongoing.producer_epoch,
        )

    return services.txns.ask(
        transactional_id,
        lambda token: InitProducer(
            token=token,
            transactional_id=transactional_id,
            timeout_ms=timeout_ms,
            expected=expected,
            enable_2pc=enable_2pc,
            keep_prepared=keep,
        ),
        build,
        keeps_nothing=True,
    )


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)
