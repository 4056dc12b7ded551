"""Keeps the measurements of all clients with a quota, in bounded memory.

A client that was not seen for an hour is removed, as in Apache Kafka. Clients choose their client ids freely,
so the number is limited, too: beyond the limit, the least recently seen client is removed. A client that is
throttled now was seen recently, so it is not the one that is removed.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
B = TypeVar("B")

IDLE_MS: Final = 3_600_000
MAX_BUCKETS: Final = 10_000  # some 1.5 kB each, with all samples


class QuotaBuckets(Generic[K, B]):
    """Rates or token buckets by the clients that share a quota, created on first use."""

    def __init__(self, make: Callable[[], B], *, max_buckets: int = MAX_BUCKETS) -> None:
        self._make = make
        self._max_buckets = max_buckets
        # With the time of the last use, oldest first. A plain dict would search for its first entry through
        # the slots of all removed ones.
        self._buckets: OrderedDict[K, tuple[B, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, sharers: K, now_ms: int) -> B:
        """Return the measurements of these sharers; remove up to two others that expired or are too many."""
        known = self._buckets.pop(sharers, None)
        if known is not None and now_ms - known[1] < IDLE_MS:
            bucket = known[0]
        else:
            bucket = self._make()
        self._buckets[sharers] = (bucket, now_ms)
        # More than one, so that the number shrinks, but few, so that a request stays cheap.
        for _ in range(2):
            oldest = next(iter(self._buckets))
            if len(self._buckets) > self._max_buckets or now_ms - self._buckets[oldest][1] >= IDLE_MS:
                del self._buckets[oldest]
        return bucket

    def latest(self, limit: int, now_ms: int) -> list[tuple[K, B]]:
        """Return the measurements of the most recently seen sharers, without counting them as seen."""
        return [
            (sharers, bucket)
            for sharers, (bucket, used_ms) in islice(reversed(self._buckets.items()), limit)
            if now_ms - used_ms < IDLE_MS
        ]
