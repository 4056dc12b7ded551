"""UnregisterBroker: removes a broker that will not come back (KIP-500)."""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import UnregisterBroker
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.node.wire.request_limits import SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(SEVERAL),
)


async def handle(
    services: Services, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    try:
        await services.metadata.submit(UnregisterBroker(broker_id=request.broker_id), client=context.client)
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.detail)
    return UnregisterBrokerResponse(error_message=None)
