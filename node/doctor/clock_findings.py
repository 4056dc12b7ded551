"""Finds clocks of nodes that differ, and clocks that were set while the node ran."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, problem

# Timestamps of records, retention and time lag depend on these clocks. NTP keeps them within milliseconds.
MAX_SKEW_MS: Final = 1_000
MAX_JUMP_MS: Final = 1_000


class ClockFacts(NamedTuple):
    """The clock of a node: how far it is ahead of the doctor's clock, and was set since the node started."""

    node_id: int
    ahead_ms: int
    uncertainty_ms: int
    jumped_ms: int  # compared with the monotonic clock


def of_clocks(clocks: Iterable[ClockFacts]) -> Iterator[Finding]:
    """Yield the clocks that differ by more than the network's delay explains, and those that were set."""
    clocks = sorted(clocks)
    if len(clocks) > 1:
        first, last = min(clocks, key=lambda one: one.ahead_ms), max(clocks, key=lambda one: one.ahead_ms)
        skew_ms = last.ahead_ms - first.ahead_ms
        if skew_ms - first.uncertainty_ms - last.uncertainty_ms > MAX_SKEW_MS:
            yield problem(
                "clock",
                f"The clock of node {last.node_id} is {skew_ms / 1000:.1f} s ahead of the clock "
                f"of node {first.node_id}: synchronize both with NTP.",
            )
    for one in clocks:
        if abs(one.jumped_ms) > MAX_JUMP_MS:
            yield problem(
                "clock",
                f"The clock of node {one.node_id} was set {abs(one.jumped_ms) / 1000:.1f} s "
                f"{'forward' if one.jumped_ms > 0 else 'back'} since the node started, or its "
                "machine was suspended: record timestamps from before and after cannot be "
                "compared.",
            )
