"""SaslAuthenticate of a client that need not log in, or has logged in.

Versions 0 to 2. `sasl_gate` serves it during a login.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.node.wire.request_limits import PAYLOAD, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 2), asks=NOTHING, limits=RequestLimits(SEVERAL, {"auth_bytes": PAYLOAD})
)


def handle(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
