"""DeleteShareGroupState: deletes the state of share-partitions (KIP-932). Version 0."""

from typing import Final

from ottla.node.coordinators.share_state_messages import delete_response, deletions
from ottla.node.kafka_api.api_description import ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.share_state_requests import ASKS, ECHOES, LIMITS, is_empty
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)

API: Final = ApiDescription(versions=(0, 0), asks=ASKS, limits=LIMITS, echoes=ECHOES)


def handle(
    services: Services, context: RequestContext, request: DeleteShareGroupStateRequest
) -> Result[DeleteShareGroupStateResponse]:
    if is_empty(request):
        return DeleteShareGroupStateResponse()
    return services.share_states.ask_each(deletions(request), delete_response)
