"""The load of this node as a leader, which its heartbeats report to the controller."""

import math
from collections.abc import Generator, Iterable
from typing import Final

from ottla.node.counters.topic_counters import TopicCounters

MEASURED_EACH_S: Final = 10.0
# The time constant of the exponential mean.
MEAN_OVER_S: Final = 120.0
# A request costs about as much CPU as writing and reading this many bytes.
REQUEST_BYTES: Final = 16 * 1024


class LeaderLoad:
    """Bytes a second moved by producers, consumers and followers, with requests converted to bytes."""

    def __init__(self) -> None:
        self.bytes_per_second = 0
        self._mean = 0.0
        self._total = 0

    def begin(self, total: int) -> None:
        """Start measuring at this total."""
        self._total = total

    def note(self, total: int, elapsed_s: float) -> None:
        """Add the growth since the last call; a total that fell is due to deleted topics."""
        rate = max(0, total - self._total) / max(elapsed_s, 0.001)
        self._total = total
        self._mean += (rate - self._mean) * (1 - math.exp(-elapsed_s / MEAN_OVER_S))
        self.bytes_per_second = int(self._mean)


def steps_to_total(topics: Iterable[TopicCounters]) -> Generator[None, None, int]:
    """Return the total of all topics since the node started; each step handles a topic."""
    total = 0
    for one in list(topics):
        moved = one.bytes_in + one.bytes_out + one.replication_bytes_out
        total += moved + REQUEST_BYTES * (one.total_produce_requests + one.total_fetch_requests)
        yield
    return total
