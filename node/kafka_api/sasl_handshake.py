"""SaslHandshake of a client that need not log in, or has done so and need not do it again.

0 to 1. While a client logs in, `sasl_gate` takes its requests.
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
