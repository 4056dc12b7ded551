"""UnregisterBroker: a broker that will not come back is forgotten (KIP-500)."""

from typing import TYPE_CHECKING

from logstore.errors import KafkaError
from metadata_raft.commands import UnregisterBroker
from node.kafka_api.request_context import RequestContext
from node.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from node.broker import Broker


async def handle(
    broker: "Broker", context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    try:
        await broker.administrators.check(context.connection)
        await broker.metadata.submit(UnregisterBroker(broker_id=request.broker_id))
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.detail)
    return UnregisterBrokerResponse(error_message=None)
