"""InitProducerId: an id for an idempotent producer; transactional ids are not served yet.

A producer that has an id and epoch and asks again without a transactional id gets a new id, as from Apache
Kafka: its old sequence numbers are over. Since 3 a producer names what it has; half of that is no name.
"""

from typing import TYPE_CHECKING

from logstore.errors import ErrorCode, KafkaError
from node.kafka_api.request_context import RequestContext
from node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from node.broker import Broker

NONE = -1


async def handle(
    broker: "Broker", context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        # As FindCoordinator answers for such a key; a retriable error would keep the client waiting in vain.
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
    except KafkaError as error:
        # Clients know this one as "ask again".
        if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return _refused(error.code)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)
