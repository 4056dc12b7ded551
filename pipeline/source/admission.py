"""How much of what is there a micro-batch takes: a fair share of each partition, or nothing yet.

The connector's own arithmetic, so that a query that changes its format changes no batch.
"""

import math
from collections.abc import Mapping

from ottla.logstore.words.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


def rate_limit(start: Offsets, end: Offsets, max_offsets: int) -> dict[TopicPartition, int]:
    """Ends for some `max_offsets` offsets in all, in proportion to what each partition has to give.

    `start` has every partition of `end`. Shares below one are one, so that no partition starves; so the sum
    may be a few more. A partition whose end lies before its start keeps its end: that is for others to judge.
    """
    sizes = {partition: end[partition] - start[partition] for partition in end}
    total = float(sum(size for size in sizes.values() if size > 0))
    if total < 1:
        return dict(end)
    limited = {}
    for partition, size in sizes.items():
        limited[partition] = end[partition]
        if size > 0:
            share = max_offsets * (size / total)
            whole = math.ceil(share) if share < 1 else math.floor(share)
            limited[partition] = min(end[partition], start[partition] + whole)
    return limited


class MinimumWait:
    """Lets a batch wait for `min_offsets` offsets, for `max_delay_ms` since the last one at most.

    The first one of a query does not wait: how long its rows have waited already nobody knows.
    """

    def __init__(self, min_offsets: int, max_delay_ms: int) -> None:
        self._min_offsets = min_offsets
        self._max_delay_ms = max_delay_ms
        self._last_ms: int | None = None

    def goes_on(self, start: Offsets, end: Offsets, now_ms: int) -> bool:
        """Whether to wait on. A moment of which it says no is that of a batch."""
        if self._last_ms is not None and now_ms - self._last_ms < self._max_delay_ms:
            available = sum(end[partition] - start[partition] for partition in end)
            if available < self._min_offsets:
                return True
        self._last_ms = now_ms
        return False
