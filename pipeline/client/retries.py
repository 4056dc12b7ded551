"""Trying again: pauses that grow, as long as a budget of time lasts. The client's one loop of attempts."""

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.client_settings import ClientSettings

R = TypeVar("R")

JITTER: Final = 0.2  # Java's: tasks that one broker's end has met do not come back at one moment
# What nodes will say otherwise of soon, beyond what is retriable by the protocol's own word.
SETTLING: Final = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.STALE_CONTROLLER_EPOCH})


def is_retriable(error: KafkaError) -> bool:
    """Whether the same may be asked again with hope."""
    return error.code.retriable or error.code in SETTLING


def monotonic_ms() -> int:
    """Milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000


class Retries:
    """The pauses between attempts, from `retry.backoff.ms` to `retry.backoff.max.ms`, doubled each time."""

    def __init__(self, settings: ClientSettings, rng: random.Random | None = None) -> None:
        self._first_ms = settings.retry_backoff_ms
        self._most_ms = settings.retry_backoff_max_ms
        self._rng = rng or random.Random()

    def pause_ms(self, failures: int) -> float:
        """How long to wait after that many failures in a row, with jitter."""
        assert failures > 0, failures
        # 2**20 of the least pause is beyond any longest one.
        pause_ms = min(self._first_ms << min(failures - 1, 20), self._most_ms)
        return pause_ms * self._rng.uniform(1 - JITTER, 1 + JITTER)

    def run(
        self,
        attempt: Callable[[], R],
        *,
        budget_ms: int,
        again: Callable[[KafkaError], bool] = is_retriable,
        between: Callable[[KafkaError], None] = lambda _error: None,
    ) -> R:
        """What `attempt` gives, tried until the budget is spent; then, or if it is no use, its KafkaError.

        `again` says of an error whether to go on; `between` does before a pause what the next attempt needs.
        """
        deadline_ms = monotonic_ms() + budget_ms
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
