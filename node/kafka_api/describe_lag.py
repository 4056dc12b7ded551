"""DescribeLag: a coordinator is told how far its groups are behind in partitions that this node leads."""

from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_lag import DescribeLagRequest, DescribeLagResponse


async def handle(
    services: Services, context: RequestContext, request: DescribeLagRequest
) -> DescribeLagResponse:
    return await services.group_lag.answer_peer(request)
