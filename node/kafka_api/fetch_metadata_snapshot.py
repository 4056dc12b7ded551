"""FetchMetadataSnapshot: a piece of the snapshot that FetchMetadata named."""

from typing import TYPE_CHECKING

from logstore.errors import ErrorCode
from node.kafka_api.request_context import RequestContext
from node.wire.messages.fetch_metadata_snapshot import (
    FetchMetadataSnapshotRequest,
    FetchMetadataSnapshotResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker


async def handle(
    broker: "Broker", context: RequestContext, request: FetchMetadataSnapshotRequest
) -> FetchMetadataSnapshotResponse:
    feed = broker.metadata_feed
    if feed is None:
        return FetchMetadataSnapshotResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return await feed.snapshot_piece(request)
