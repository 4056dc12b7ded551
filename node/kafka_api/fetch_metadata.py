"""FetchMetadata: a node that is no voter is given what was committed; any voter serves it."""

from ottla.logstore.errors import ErrorCode
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import QuorumServices
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse


def handle(
    services: QuorumServices, context: RequestContext, request: FetchMetadataRequest
) -> Result[FetchMetadataResponse]:
    feed = services.metadata_feed
    if feed is None:
        return FetchMetadataResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return feed.fetch(request, context.api_version)
