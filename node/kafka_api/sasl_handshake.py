"""SaslHandshake of a client that need not log in, or has logged in for good.

Versions 0 and 1. `sasl_gate` serves it during a login.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(versions=(0, 1), asks=NOTHING, limits=RequestLimits(SEVERAL, {"mechanism": NAME}))


def handle(
    services: Services, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
