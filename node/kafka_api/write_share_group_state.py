"""WriteShareGroupState: the leader of share-partitions writes their state (KIP-932).

Versions 0 and 1; since 1 with the number of records whose delivery is complete (KIP-1226).
"""

from typing import Final

from ottla.groupcoord.share_state.share_state_config import MAX_DEAD_LETTERS_BYTES
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema_decode import FieldLimit
from ottla.node.coordinators.share_state_messages import write_response, writes
from ottla.node.kafka_api.api_description import ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.share_state_requests import ASKS, ECHOES, LIMITS, is_empty
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)

# A note on dead letters cannot be longer than this; a coordinator rejects a longer one.
_NOTE: Final = FieldLimit(MAX_DEAD_LETTERS_BYTES, ErrorCode.INVALID_REQUEST)
_LIMITS: Final = LIMITS._replace(fields={**LIMITS.fields, "topics.partitions.dead_letters": _NOTE})

API: Final = ApiDescription(versions=(0, 1), asks=ASKS, limits=_LIMITS, echoes=ECHOES)


def handle(
    services: Services, context: RequestContext, request: WriteShareGroupStateRequest
) -> Result[WriteShareGroupStateResponse]:
    if is_empty(request):
        return WriteShareGroupStateResponse()
    return services.share_states.ask_each(writes(request), write_response)
