"""Keeps the measurements of all who have a quota, in bounded memory.

Whoever has not been seen for an hour is forgotten, as in Apache Kafka. Clients choose their client ids
freely, so the number is bounded, too: of too many, the one that was not seen for the longest time goes. A
client that was throttled has just been seen.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
B = TypeVar("B")

IDLE_MS: Final = 3_600_000
MAX_BUCKETS: Final = 10_000  # some 1.5 kB each with all of its samples


class QuotaBuckets(Generic[K, B]):
    """Rates or token buckets by those who share a quota, made when first asked for."""

    def __init__(self, make: Callable[[], B], *, most: int = MAX_BUCKETS) -> None:
        self._make = make
        self._most = most
        # With the time of the last use, the oldest first. A dict would look for its first entry among the
        # places of all that were taken out before.
        self._buckets: OrderedDict[K, tuple[B, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, sharers: K, now_ms: int) -> B:
        """Return what is measured for these; a few of those whose time is over are forgotten."""
        known = self._buckets.pop(sharers, None)
        if known is not None and now_ms - known[1] < IDLE_MS:
            bucket = known[0]
        else:
            bucket = self._make()
        self._buckets[sharers] = (bucket, now_ms)
        for _ in range(2):  # so that there are ever fewer, while a request costs no more than a few steps
            oldest = next(iter(self._buckets))
            if len(self._buckets) > self._most or now_ms - self._buckets[oldest][1] >= IDLE_MS:
                del self._buckets[oldest]
        return bucket

    def latest(self, most: int, now_ms: int) -> list[tuple[K, B]]:
        """Return what is measured for those who were seen last, which does not count as seen."""
        return [
            (sharers, bucket)
            for sharers, (bucket, used_ms) in islice(reversed(self._buckets.items()), most)
            if now_ms - used_ms < IDLE_MS
        ]
