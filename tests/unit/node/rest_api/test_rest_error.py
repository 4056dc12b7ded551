"""Kafka's errors as answers of Confluent's REST API (its KafkaExceptionMapper)."""

import orjson
import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.rest_api.http_answer import error_answer
from ottla.node.rest_api.rest_error import RestError, rest_error_of

E = ErrorCode


@pytest.mark.parametrize(
    ("code", "status", "error_code"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, 404, 40403),
        (E.UNKNOWN_TOPIC_ID, 404, 40403),
        (E.TOPIC_ALREADY_EXISTS, 400, 40002),
        (E.INVALID_PARTITIONS, 400, 40002),
        (E.INVALID_REPLICATION_FACTOR, 400, 40002),
        (E.INVALID_CONFIG, 400, 40002),
        (E.INVALID_TOPIC_EXCEPTION, 400, 40002),
        (E.POLICY_VIOLATION, 400, 40002),
        (E.UNSUPPORTED_VERSION, 400, 40002),
        (E.SECURITY_DISABLED, 400, 40002),
        (E.TOPIC_AUTHORIZATION_FAILED, 403, 40301),
        (E.SASL_AUTHENTICATION_FAILED, 401, 40101),
        (E.MESSAGE_TOO_LARGE, 413, 413),
        (E.THROTTLING_QUOTA_EXCEEDED, 429, 42901),
        (E.BROKER_NOT_AVAILABLE, 503, 50302),
        (E.REQUEST_TIMED_OUT, 503, 50003),
        (E.NOT_ENOUGH_REPLICAS, 503, 50003),
        (E.NETWORK_EXCEPTION, 503, 50003),
        (E.KAFKA_STORAGE_ERROR, 503, 50003),
        (E.STALE_BROKER_EPOCH, 500, 50002),
        (E.GROUP_ID_NOT_FOUND, 404, 404),
        (E.NON_EMPTY_GROUP, 409, 409),
        (E.LEADER_NOT_AVAILABLE, 503, 50003),
        (E.CONCURRENT_TRANSACTIONS, 409, 409),
    ],
)
def test_an_error_has_confluents_code(code: ErrorCode, status: int, error_code: int) -> None:
    error = rest_error_of(KafkaError(code, "topic t"))

    assert (error.status, error.error_code) == (status, error_code)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not E.NONE])
def test_every_error_has_a_status_and_words(code: ErrorCode) -> None:
    error = rest_error_of(KafkaError(code))

    assert 400 <= error.status < 600
    # Transient errors are 503, with the code on which Confluent's clients retry.
    assert error.error_code == 50003 or str(error.error_code).startswith(str(error.status))
    assert error.status != 500 or not code.retriable
    assert error.message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KafkaError(E.INVALID_CONFIG, "Unknown topic config name: x."), "Unknown topic config name: x."),
        (KafkaError(E.TOPIC_ALREADY_EXISTS, "topic t"), "TOPIC_ALREADY_EXISTS: topic t."),
        (KafkaError(E.NOT_CONTROLLER), "NOT_CONTROLLER."),
        (
            KafkaError(E.UNKNOWN_TOPIC_OR_PARTITION, "topic t"),
            "This server does not host this topic-partition. (topic t)",
        ),
        (KafkaError(E.UNKNOWN_TOPIC_OR_PARTITION), "This server does not host this topic-partition."),
    ],
)
def test_the_message_names_the_error_and_its_subject(error: KafkaError, message: str) -> None:
    assert rest_error_of(error).message == message


def test_bytes_of_a_head_that_are_no_text_are_quoted_in_an_answer_that_is_json() -> None:
    answer = error_answer(RestError(415, 415, "not application/\udcfe"))

    assert answer.status == 415 and isinstance(answer.body, bytes)
    assert orjson.loads(answer.body) == {"error_code": 415, "message": r"not application/\udcfe"}
