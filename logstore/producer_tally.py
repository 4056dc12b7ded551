"""The number of producers in the state of all logs of a node, and its limit.

A log keeps the state of an idempotent producer for `producer.id.expiration.ms`, a day, and a client may
request any number of producer ids. From 7/8 of the limit on, the owner of this tally expires the producers
that have been silent for longest. If that is not enough, producers that are new to a log are rejected.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

PRODUCER_BYTES: Final = 1_200  # measured, with the last five batches of the producer


@dataclass(slots=True)
class ProducerTally:
    """The number of producers in the logs that use this tally, and the limit on their memory."""

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
        """The number of producers to expire: down to 3/4 of the limit, once it is 7/8 full."""
        if self.used_bytes * 8 <= self.limit_bytes * 7:
            return 0
        return self.count - self.limit_bytes * 3 // 4 // PRODUCER_BYTES


@dataclass(slots=True)
class SilentProducers:
    """The number of producers that may be expired, by the second of their last batch or marker."""

    by_second: Counter[int] = field(default_factory=Counter)

    def add(self, last_seen_ms: list[int]) -> None:
        """Count the producers with these times."""
        self.by_second.update([one // 1000 for one in last_seen_ms])

    def seen_before_ms(self, count: int) -> int:
        """Return the time before which `count` producers were last seen, or all if there are fewer."""
        second = -1
        for second in sorted(self.by_second):
            count -= self.by_second[second]
            if count <= 0:
                break
        return (second + 1) * 1000
