"""RenewDelegationToken (KIP-48): rejected, since delegation tokens are disabled."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.delegation_tokens import NO_TIME, refusal
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(1, 2),
    asks=NOTHING,  # it is rejected for every client
    limits=RequestLimits(SEVERAL, {"hmac": NAME}),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    error = refusal(context)
    is_early = error is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=NO_TIME if is_early else 0)
