"""CreateDelegationToken (KIP-48): rejected, since delegation tokens are disabled."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.acl_requests import PRINCIPAL
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.delegation_tokens import NO_TIME, refusal
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(1, 3),
    asks=NOTHING,  # it is rejected for every client
    limits=RequestLimits(
        SEVERAL,
        {
            "owner_principal_type": NAME,
            "owner_principal_name": PRINCIPAL,
            "renewers.principal_type": NAME,
            "renewers.principal_name": PRINCIPAL,
        },
    ),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Return the rejection, with the owner that the client named, by default the client itself."""
    requester_type, _, requester_name = context.access.principal.partition(":")
    error = refusal(context)
    owner_type, owner_name = requester_type, requester_name
    if request.owner_principal_name:
        owner_type, owner_name = request.owner_principal_type or "", request.owner_principal_name
    is_early = error is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=NO_TIME if is_early else 0,
        expiry_timestamp_ms=NO_TIME if is_early else 0,
        max_timestamp_ms=NO_TIME if is_early else 0,
    )
