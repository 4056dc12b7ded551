"""FetchMetadata: a node that is no voter is given what was committed; any voter serves it."""

from typing import TYPE_CHECKING, Any

from logstore.errors import ErrorCode
from node.kafka_api.request_context import RequestContext
from node.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse

if TYPE_CHECKING:
    from node.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: FetchMetadataRequest) -> Any:
    feed = broker.metadata_feed
    if feed is None:
        return FetchMetadataResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return feed.fetch(request, context.api_version)
