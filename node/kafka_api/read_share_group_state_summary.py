"""ReadShareGroupStateSummary: the start offsets and epochs of share-partitions (KIP-932).

Versions 0 and 1; since 1 with the number of records whose delivery is complete (KIP-1226).
"""

from typing import Final

from ottla.node.coordinators.share_state_messages import summaries, summary_response
from ottla.node.kafka_api.api_description import ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.share_state_requests import ASKS, ECHOES, LIMITS, is_empty
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)

API: Final = ApiDescription(versions=(0, 1), asks=ASKS, limits=LIMITS, echoes=ECHOES)


def handle(
    services: Services, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Result[ReadShareGroupStateSummaryResponse]:
    if is_empty(request):
        return ReadShareGroupStateSummaryResponse()
    return services.share_states.ask_each(summaries(request), summary_response)
