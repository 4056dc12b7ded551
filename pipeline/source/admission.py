"""The admission of offsets to a micro-batch: a fair share of each partition, or none yet.

It is the connector's own arithmetic, so a query that changes its format has the same batches.
"""

import math
from collections.abc import Mapping

from ottla.logstore.words.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


def rate_limit(start: Offsets, end: Offsets, max_offsets: int) -> dict[TopicPartition, int]:
    """Return ends that admit about `max_offsets` offsets, in proportion to what each partition has to read.

    `start` has every partition of `end`. A share below one is raised to one, so that no partition starves;
    therefore the sum may exceed the limit by a few. A partition whose end lies before its start keeps its
    end: callers judge that.
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
    """Lets a batch wait for `min_offsets` offsets, for at most `max_delay_ms` after the last batch.

    The first batch of a query does not wait: it is unknown how long its rows have waited already.
    """

    def __init__(self, min_offsets: int, max_delay_ms: int) -> None:
        self._min_offsets = min_offsets
        self._max_delay_ms = max_delay_ms
        self._last_ms: int | None = None

    def goes_on(self, start: Offsets, end: Offsets, now_ms: int) -> bool:
        """Return True if the batch must wait longer.

        Otherwise `now_ms` becomes the time of the last batch.
        """
        if self._last_ms is not None and now_ms - self._last_ms < self._max_delay_ms:
            available = sum(end[partition] - start[partition] for partition in end)
            if available < self._min_offsets:
                return True
        self._last_ms = now_ms
        return False
