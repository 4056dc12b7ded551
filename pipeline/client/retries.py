"""Retries with pauses that grow, until a timeout. The client's only loop of attempts."""

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.clock import monotonic_ms

R = TypeVar("R")

JITTER: Final = 0.2  # Java's: tasks that lost the same broker do not all retry at one moment
# Errors that nodes soon recover from, beyond those that the protocol calls retriable.
TRANSIENT_ERRORS: Final = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.STALE_CONTROLLER_EPOCH})


def is_retriable(error: KafkaError) -> bool:
    """Return True if another attempt may succeed."""
    return error.code.retriable or error.code in TRANSIENT_ERRORS


class Retries:
    """The pauses between attempts, from `retry.backoff.ms` to `retry.backoff.max.ms`, doubled each time."""

    def __init__(self, settings: ClientSettings, rng: random.Random | None = None) -> None:
        self._first_ms = settings.retry_backoff_ms
        self._most_ms = settings.retry_backoff_max_ms
        self._rng = rng or random.Random()

    def pause_ms(self, failures: int) -> float:
        """Return the pause after that many failures in a row, with jitter."""
        assert failures > 0, failures
        # 2**20 times the shortest pause is more than any longest one.
        pause_ms = min(self._first_ms << min(failures - 1, 20), self._most_ms)
        return pause_ms * self._rng.uniform(1 - JITTER, 1 + JITTER)

    def run(
        self,
        attempt: Callable[[], R],
        *,
        timeout_ms: int,
        again: Callable[[KafkaError], bool] = is_retriable,
        between: Callable[[KafkaError], None] = lambda _error: None,
    ) -> R:
        """Return the result of `attempt`, repeated for `timeout_ms`; then raise its last KafkaError.

        `again` decides whether an error is worth another attempt; `between` prepares the next one before the
        pause.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        failures = 0
        while True:
            try:
                return attempt()
            except KafkaError as error:
                failures += 1
                pause_ms = self.pause_ms(failures)
                if not again(error) or monotonic_ms() + pause_ms > deadline_ms:
                    raise
                between(error)
            time.sleep(pause_ms / 1000)
