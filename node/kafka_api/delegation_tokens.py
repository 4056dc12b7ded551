"""Delegation tokens (KIP-48), disabled as in Apache Kafka without `delegation.token.secret.key`."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.authorization.access import ANONYMOUS
from ottla.node.kafka_api.request_context import RequestContext

NO_TIME: Final = -1  # the timestamps of a token that does not exist


def refusal(context: RequestContext) -> ErrorCode:
    """Return the error of every request about delegation tokens.

    Unauthenticated clients get the error that they would get if tokens were enabled, too.
    """
    connection = context.connection
    is_anonymous = connection.security_protocol == "SSL" and connection.access.principal == ANONYMOUS
    if connection.security_protocol == "PLAINTEXT" or is_anonymous:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
