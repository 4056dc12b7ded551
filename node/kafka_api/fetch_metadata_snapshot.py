"""FetchMetadataSnapshot: returns a piece of the snapshot that FetchMetadata named."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.api_description import PEERS_ONLY, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import QuorumServices
from ottla.node.wire.messages.fetch_metadata_snapshot import (
    FetchMetadataSnapshotRequest,
    FetchMetadataSnapshotResponse,
)
from ottla.node.wire.request_limits import SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=PEERS_ONLY,
    limits=RequestLimits(SEVERAL),
    is_served_early=True,
)


async def handle(
    services: QuorumServices, context: RequestContext, request: FetchMetadataSnapshotRequest
) -> FetchMetadataSnapshotResponse:
    feed = services.metadata_feed
    if feed is None:
        return FetchMetadataSnapshotResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return await feed.snapshot_piece(request)
