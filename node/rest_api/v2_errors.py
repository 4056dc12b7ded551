"""Errors of Confluent's REST API v2 that v3 does not have."""

from typing import Final

from ottla.node.rest_api.rest_error import RestError

CONFIG_CONSTRAINT: Final = 40001
TOPIC_NOT_FOUND: Final = 40401
INSTANCE_NOT_FOUND: Final = 40403
FORMAT_MISMATCH: Final = 40601
ALREADY_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
JSON_CONVERSION: Final = 42203
INVALID_CONSUMER_CONFIG: Final = 42204
INVALID_PAYLOAD: Final = 42206


def no_instance() -> RestError:
    """Return the error for a consumer that does not exist or belongs to another caller."""
    return RestError(
        404,
        INSTANCE_NOT_FOUND,
        "Consumer instance not found. A consumer runs on the node that created it, which its base_uri "
        "names, and ends after ottla.rest.consumers.timeout.ms without a request.",
    )


def illegal_state(problem: str) -> RestError:
    """Return the error for a request that the consumer's current state does not allow."""
    return RestError(409, ILLEGAL_STATE, f"Illegal state: {problem}")
