"""DescribeLag: a coordinator is told how far its groups are behind in partitions that this node leads."""

from typing import TYPE_CHECKING

from node.kafka_api.request_context import RequestContext
from node.wire.messages.describe_lag import DescribeLagRequest, DescribeLagResponse

if TYPE_CHECKING:
    from node.broker import Broker


async def handle(
    broker: "Broker", context: RequestContext, request: DescribeLagRequest
) -> DescribeLagResponse:
    return await broker.group_lag.answer_peer(request)
