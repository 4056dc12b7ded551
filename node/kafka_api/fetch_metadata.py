"""FetchMetadata: returns committed metadata to a node that is not a voter; any voter serves it."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.api_description import PEERS_ONLY, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import QuorumServices
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse
from ottla.node.wire.request_limits import SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=PEERS_ONLY,
    limits=RequestLimits(SEVERAL),
    is_served_early=True,
)


def handle(
    services: QuorumServices, context: RequestContext, request: FetchMetadataRequest
) -> Result[FetchMetadataResponse]:
    feed = services.metadata_feed
    if feed is None:
        return FetchMetadataResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return feed.fetch(request, context.api_version)
