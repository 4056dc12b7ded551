"""Retries: pauses double up to a limit, a timeout ends them, and final errors are not retried."""

import random

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.retries import JITTER, Retries


def retries(*, first_ms: int = 0, most_ms: int = 0) -> Retries:
    settings = ClientSettings(
        bootstrap_servers=(("a", 1),), retry_backoff_ms=first_ms, retry_backoff_max_ms=most_ms
    )
    return Retries(settings, random.Random(1))


def test_pauses_double_and_have_a_limit() -> None:
    one = retries(first_ms=100, most_ms=1000)

    for failures, middle_ms in ((1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (5000, 1000)):
        assert (1 - JITTER) * middle_ms <= one.pause_ms(failures) <= (1 + JITTER) * middle_ms


def test_retriable_errors_are_retried_until_success() -> None:
    errors = [ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION]
    met = []

    def attempt() -> str:
        if errors:
            raise KafkaError(errors.pop(0))
        return "done"

    assert retries().run(attempt, timeout_ms=60_000, between=lambda error: met.append(error.code)) == "done"
    assert met == [ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION]


@pytest.mark.parametrize(
    ("code", "timeout_ms"),
    [(ErrorCode.PRODUCER_FENCED, 60_000), (ErrorCode.NOT_COORDINATOR, -1)],
)
def test_final_or_late_errors_are_raised(code: ErrorCode, timeout_ms: int) -> None:
    attempts = []

    def attempt() -> None:
        attempts.append(1)
        raise KafkaError(code, "so it is")

    with pytest.raises(KafkaError, match="so it is"):
        retries().run(attempt, timeout_ms=timeout_ms)
    assert len(attempts) == 1
