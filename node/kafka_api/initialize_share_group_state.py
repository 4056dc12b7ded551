"""InitializeShareGroupState: initializes the state of share-partitions (KIP-932). Version 0."""

from typing import Final

from ottla.node.coordinators.share_state_messages import initializations, initialize_response
from ottla.node.kafka_api.api_description import ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.share_state_requests import ASKS, ECHOES, LIMITS, is_empty
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)

API: Final = ApiDescription(versions=(0, 0), asks=ASKS, limits=LIMITS, echoes=ECHOES)


def handle(
    services: Services, context: RequestContext, request: InitializeShareGroupStateRequest
) -> Result[InitializeShareGroupStateResponse]:
    if is_empty(request, allows_empty_topics=True):
        return InitializeShareGroupStateResponse()
    return services.share_states.ask_each(initializations(request), initialize_response)
