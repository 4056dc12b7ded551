"""How many producers all logs of a node remember, and how many they may.

What a log knows of an idempotent producer stays for `producer.id.expiration.ms`, a day, and every client may
have as many ids as it asks for. From 7/8 of the limit on the owner has those forgotten that were silent for
longest; where that is not enough, producers that a log does not know are refused.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

PRODUCER_BYTES: Final = 1_200  # with its last five batches, as measured


@dataclass(slots=True)
class ProducerTally:
    """Of the logs that count in it."""

    limit_bytes: int = 2**63 - 1
    count: int = 0

    @property
    def used_bytes(self) -> int:
        return self.count * PRODUCER_BYTES

    @property
    def is_full(self) -> bool:
        return self.count * PRODUCER_BYTES >= self.limit_bytes

    @property
    def surplus(self) -> int:
        """Return how many producers are to be forgotten: down to 3/4 of the limit, once it is 7/8 full."""
        if self.used_bytes * 8 <= self.limit_bytes * 7:
            return 0
        return self.count - self.limit_bytes * 3 // 4 // PRODUCER_BYTES


@dataclass(slots=True)
class SilentProducers:
    """How many producers may be forgotten, by the second in which they were heard of last."""

    by_second: Counter[int] = field(default_factory=Counter)

    def add(self, last_seen_ms: list[int]) -> None:
        """Count more of them."""
        self.by_second.update([one // 1000 for one in last_seen_ms])

    def heard_before_ms(self, count: int) -> int:
        """Return before which time so many of them were heard of last, or all if they are fewer."""
        second = -1
        for second in sorted(self.by_second):
            count -= self.by_second[second]
            if count <= 0:
                break
        return (second + 1) * 1000
