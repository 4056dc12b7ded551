"""Errors as answers: a status and `{"error_code": ..., "message": ...}`, as Confluent's REST API has them.

The code is the status, or the status followed by two digits with details: 40403 is an unknown topic or
partition. Kafka's errors map to codes as in Confluent's `KafkaExceptionMapper`, with two exceptions: a
client's mistake that Confluent's answers with 500 is a 4xx here, and a transient error is 503 with code
50003, which Confluent's clients know. 500 is left for unexpected errors.
"""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.rest_api.json_schema import Schema

E = ErrorCode

KAFKA_BAD_REQUEST: Final = 40002
AUTHENTICATION_FAILED: Final = 40101
AUTHORIZATION_FAILED: Final = 40301
PARTITION_NOT_FOUND: Final = 40402
UNKNOWN_TOPIC_OR_PARTITION: Final = 40403
TOO_MANY_REQUESTS: Final = 42901
KAFKA_ERROR: Final = 50002
KAFKA_RETRIABLE_ERROR: Final = 50003
BROKER_NOT_AVAILABLE: Final = 50302
ERROR: Final[Schema] = {
    "title": "Error",
    "type": "object",
    "properties": {
        "error_code": {"type": "integer", "examples": [40403]},
        "message": {"type": ["string", "null"]},
    },
    "required": ["error_code", "message"],
}


class RestError(Exception):
    """An error that answers the request."""

    def __init__(
        self,
        status: int,
        error_code: int,
        message: str,
        *,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Set when to retry (`retry_after_s`, if that may help), and the headers of the answer."""
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.retry_after_s = retry_after_s
        self.headers = headers or {}


def not_found(message: str) -> RestError:
    """Return the error for a resource in a path that does not exist."""
    return RestError(404, 404, message)


def bad_request(message: str) -> RestError:
    return RestError(400, 400, message)


def invalid_payload(problem: str) -> RestError:
    """Return the error for a well-formed body with invalid content; its text has an inner code."""
    return RestError(422, 422, f"Error: 42206 : Payload error. {problem}")


_MEANINGS: Final[Mapping[tuple[int, int], tuple[ErrorCode, ...]]] = {
    (400, KAFKA_BAD_REQUEST): (
        E.INVALID_REPLICATION_FACTOR,
        E.SECURITY_DISABLED,
        E.UNSUPPORTED_VERSION,
        E.INVALID_PARTITIONS,
        E.INVALID_REQUEST,
        E.UNKNOWN_SERVER_ERROR,
        E.POLICY_VIOLATION,
        E.TOPIC_ALREADY_EXISTS,
        E.INVALID_CONFIG,
        E.TOPIC_DELETION_DISABLED,
        E.INVALID_TOPIC_EXCEPTION,
        # Confluent's answers these with 500, 50002.
        E.INVALID_REPLICA_ASSIGNMENT,
        E.INVALID_GROUP_ID,
        E.INVALID_RECORD,
        E.INVALID_TIMESTAMP,
        E.INVALID_REQUIRED_ACKS,
        E.OFFSET_OUT_OF_RANGE,
        E.UNSUPPORTED_COMPRESSION_TYPE,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        E.INVALID_UPDATE_VERSION,
        E.INELIGIBLE_REPLICA,
        E.LOG_DIR_NOT_FOUND,
        E.INVALID_REGULAR_EXPRESSION,
        E.OFFSET_METADATA_TOO_LARGE,
    ),
    (401, AUTHENTICATION_FAILED): (E.SASL_AUTHENTICATION_FAILED,),
    (403, AUTHORIZATION_FAILED): (
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ),
    (404, UNKNOWN_TOPIC_OR_PARTITION): (E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID),
    (404, 404): (
        E.GROUP_ID_NOT_FOUND,
        E.TRANSACTIONAL_ID_NOT_FOUND,
        E.BROKER_ID_NOT_REGISTERED,
        E.NO_REASSIGNMENT_IN_PROGRESS,
        E.RESOURCE_NOT_FOUND,
        E.VOTER_NOT_FOUND,
    ),
    (409, 409): (
        E.NON_EMPTY_GROUP,
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.REASSIGNMENT_IN_PROGRESS,
        # Confluent's answers these with 500: the request conflicts with the current state.
        E.UNKNOWN_MEMBER_ID,
        E.ILLEGAL_GENERATION,
        E.FENCED_MEMBER_EPOCH,
        E.CONCURRENT_TRANSACTIONS,
        E.INVALID_TXN_STATE,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.PRODUCER_FENCED,
        E.TRANSACTION_COORDINATOR_FENCED,
        E.ELECTION_NOT_NEEDED,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        E.DUPLICATE_RESOURCE,
        E.DUPLICATE_VOTER,
        E.DUPLICATE_BROKER_REGISTRATION,
        E.OPERATION_NOT_ATTEMPTED,
    ),
    (413, 413): (E.MESSAGE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE),
    (429, TOO_MANY_REQUESTS): (E.THROTTLING_QUOTA_EXCEEDED,),
    (503, BROKER_NOT_AVAILABLE): (E.BROKER_NOT_AVAILABLE,),
}
_STATUS: Final = {code: meaning for meaning, codes in _MEANINGS.items() for code in codes}


def rest_error_of(error: KafkaError) -> RestError:
    """Return the answer for an error of Kafka's."""
    other = (503, KAFKA_RETRIABLE_ERROR) if error.code.retriable else (500, KAFKA_ERROR)
    status, error_code = _STATUS.get(error.code, other)
    detail = error.detail.rstrip(".")
    if error_code == UNKNOWN_TOPIC_OR_PARTITION:
        # Confluent's clients search for this text.
        words = "This server does not host this topic-partition."
        is_redundant = not detail or words.rstrip(".") in detail
        return RestError(status, error_code, words if is_redundant else f"{words} ({detail})")
    # A detail is often only the subject of the error, such as a name.
    is_sentence = " " in detail and (error.detail.endswith(".") or ":" in detail)
    if not is_sentence:
        detail = f"{error.code.name}: {detail}" if detail else error.code.name
    return RestError(status, error_code, f"{detail}.")
