"""The shape of a workload: its name, how long a run of it lasts, and the figures that it gives.

Figures are named with their unit; where a name ends as in `BETTER_LOW`, less is better.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Figures = dict[str, float]
Target = TypeVar("Target")
BETTER_LOW = (
    " ms",
    "s/GB",
    "us/request",
    "us/commit",
    "us/record",
    "us/heartbeat",
    "retries/commit",
    " s",
    "CPU s/s",
    "MB RSS",
    "MB RSS more",
    "failed writes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run ends after `seconds` or `limit_bytes`, whichever is first."""

    seconds: float = 3.0
    limit_bytes: int = 1 << 30

    def slice(self, slices: int) -> "Plan":
        return Plan(seconds=self.seconds / slices, limit_bytes=self.limit_bytes // slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Generic[Target]):
    """What is measured of a `Target`, a server or a cluster.

    `goals`: the ratio to reach by figure; at least that, or at most where less is better. A run is cut into
    `slices`, after each of which the servers change turns. `prepare` comes before the first, for each server.
    """

    name: str
    run: Callable[[Target, Plan], Figures]
    goals: dict[str, float] = field(default_factory=dict)
    slices: int = 1
    prepare: Callable[[Target], object] = field(default=lambda _: None)


def lower_is_better(figure: str) -> bool:
    return figure.endswith(BETTER_LOW)
