"""InitProducerId: an id and epoch for a producer.

Without a transactional id the answer is an id that nobody has; who has one already and asks again gets a new
one, as from Apache Kafka: its old sequence numbers are over. With a transactional id it is the coordinator's
word, and who had the id before is fenced. Since 3 a producer names what it has; half of that is no name.
Since 6 (not final in Apache Kafka) it may have its transactions ended by others (KIP-939).
"""

from typing import Final

from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.groupcoord.transactions.transaction_commands import InitProducer
from ottla.groupcoord.transactions.transaction_results import InitProducerResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.kafka_api.api_description import ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 5),
    limits=RequestLimits(SEVERAL, {"transactional_id": NAME}),
    unstable_version=6,
    old_ids=("transactional_id",),
)

NONE = -1
FIRST_FENCED_VERSION = 4  # clients before know INVALID_PRODUCER_EPOCH only


def handle(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> Result[InitProducerIdResponse]:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _new_id(services)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    return _ask_coordinator(services, request.transactional_id, request, context.api_version)


async def _new_id(services: Services) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await services.producer_ids.next(), producer_epoch=0)
    except KafkaError as error:
        # Clients know this one as "ask again".
        if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
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
