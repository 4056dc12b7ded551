"""DescribeSharePartitions: tells a node which records share groups have in flight in partitions led here."""

from typing import Final

from ottla.node.kafka_api.api_description import PEERS_ONLY, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_share_partitions import (
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
)
from ottla.node.wire.request_limits import GROUP, MANY_PARTITIONS, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=PEERS_ONLY,
    limits=RequestLimits(MANY_PARTITIONS, {"groups.group_id": GROUP}),
)


async def handle(
    services: Services, context: RequestContext, request: DescribeSharePartitionsRequest
) -> DescribeSharePartitionsResponse:
    return await services.share_views.answer_peer(request)
