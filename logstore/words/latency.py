"""How long things take: counts in fixed buckets, which cost an addition each and can be summed over nodes."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

# Upper bounds in seconds: from a small request that is answered at once to the longest wait of a fetch.
BOUNDS_S: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0,
)  # fmt: skip


class LatencyHistogram:
    """`counts[n]` were at most `BOUNDS_S[n]` long and longer than the bound before; the last have no bound.

    One thread observes; others may read at any time, and see an observation or not.
    """

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float, weight: int = 1) -> None:
        """Count what took so long; a sample stands for `weight` of its kind."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += weight
        self.sum_s += seconds * weight


def quantile(counts: Sequence[int], share: float) -> float:
    """About how long (seconds) the fastest `share` (0 to 1) of what was counted took at most; 0 for nothing.

    Within a bucket, all are believed to be spread evenly; beyond the last bound nothing is known but that.
    """
    total = sum(counts)
    if not total:
        return 0.0
    rank = share * total
    for place, reached in enumerate(accumulate(counts)):
        if reached >= rank and counts[place]:
            if place == len(BOUNDS_S):
                return BOUNDS_S[-1]
            lower = BOUNDS_S[place - 1] if place else 0.0
            within = (rank - (reached - counts[place])) / counts[place]
            return lower + (BOUNDS_S[place] - lower) * min(max(within, 0.0), 1.0)
    return BOUNDS_S[-1]
