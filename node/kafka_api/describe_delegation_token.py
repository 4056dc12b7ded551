"""DescribeDelegationToken (KIP-48): rejected, since delegation tokens are disabled."""

from typing import Final

from ottla.node.kafka_api.acl_requests import PRINCIPAL
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.delegation_tokens import refusal
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(1, 3),
    asks=NOTHING,  # it is rejected for every client
    limits=RequestLimits(SEVERAL, {"owners.principal_type": NAME, "owners.principal_name": PRINCIPAL}),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=refusal(context))
