"""Histograms of latencies, with fixed buckets: counting costs an addition, and nodes can be summed."""

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
    """The number of samples in each bucket, and the sum of all samples.

    `counts[n]` samples were at most `BOUNDS_S[n]` long and longer than the bound before; the last bucket has
    no upper bound. One thread observes; other threads may read at any time, and may miss the latest sample.
    """

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float, weight: int = 1) -> None:
        """Count a sample of so many seconds; where only some are measured, it stands for `weight` of them."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += weight
        self.sum_s += seconds * weight


def quantile(counts: Sequence[float], share: float) -> float:
    """Return an estimate (seconds) of the quantile `share`, from 0 to 1; 0 if nothing was counted.

    The samples of a bucket are assumed to be spread evenly over it. In the last bucket the estimate is its
    lower bound.
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
