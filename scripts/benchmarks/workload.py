"""The type of a workload, with its name, its plan and its figures.

Names of figures end with their unit; less is better if the end is one of `BETTER_LOW`.
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
    """The limits of a run, which ends after `seconds` or `limit_bytes`, whichever comes first."""

    seconds: float = 3.0
    limit_bytes: int = 1 << 30

    def slice(self, slices: int) -> "Plan":
        return Plan(seconds=self.seconds / slices, limit_bytes=self.limit_bytes // slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Generic[Target]):
    """A measurement of a `Target`, a server or a cluster.

    `goals` are ratios by figure: at least, or at most if less is better. A run is cut into `slices`, and the
    servers take turns after each. `prepare` runs once for each server, before the first slice.
    """

    name: str
    run: Callable[[Target, Plan], Figures]
    goals: dict[str, float] = field(default_factory=dict)
    slices: int = 1
    prepare: Callable[[Target], object] = field(default=lambda _: None)


def lower_is_better(figure: str) -> bool:
    return figure.endswith(BETTER_LOW)
