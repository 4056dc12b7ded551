"""DescribeLag: tells a coordinator the lag of its groups in partitions that this node leads."""

from typing import Final

from ottla.node.kafka_api.api_description import PEERS_ONLY, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_lag import DescribeLagRequest, DescribeLagResponse
from ottla.node.wire.request_limits import MANY_PARTITIONS, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=PEERS_ONLY,
    limits=RequestLimits(MANY_PARTITIONS),
)


async def handle(
    services: Services, context: RequestContext, request: DescribeLagRequest
) -> DescribeLagResponse:
    return await services.group_lag.answer_peer(request)
