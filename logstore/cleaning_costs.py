"""The recent costs of cleaning each topic, by which expensive topics are cleaned after the others.

Batches of some kB may decompress into millions of records, so a round over one log may take minutes. Without
this order, a topic of such batches, which is always the dirtiest, would keep all others from being cleaned.
"""

import math
from collections.abc import Set
from typing import Final

ROUND_CPU_S: Final = 10.0  # then a round indexes no further batch, and the topic's next round is deferred
HALF_LIFE_MS: Final = 600_000
FORGOTTEN_S: Final = ROUND_CPU_S / 10


class CleaningCosts:
    """The CPU seconds that the rounds of each topic took; they decay by half in ten minutes."""

    __slots__ = ("_costs",)

    def __init__(self) -> None:
        self._costs: dict[str, tuple[float, int]] = {}  # by topic: seconds, and the time of that value

    def add(self, topic: str, cpu_s: float, now_ms: int) -> None:
        """Add the cost of a part of a round."""
        total_s = self._cost_s(topic, now_ms) + cpu_s
        self._costs[topic] = (total_s, now_ms)

    def rounds(self, topic: str, now_ms: int) -> int:
        """Return the recent cost of a topic in rounds of ROUND_CPU_S; topics with fewer are cleaned first."""
        cost_s = self._cost_s(topic, now_ms)
        if cost_s < FORGOTTEN_S:
            self._costs.pop(topic, None)
        return int(cost_s / ROUND_CPU_S)

    def keep_only(self, topics: Set[str]) -> None:
        """Drop the topics that do not exist any more."""
        for topic in self._costs.keys() - topics:
            del self._costs[topic]

    def _cost_s(self, topic: str, now_ms: int) -> float:
        cost_s, at_ms = self._costs.get(topic, (0.0, now_ms))
        return cost_s * math.exp2(-max(0, now_ms - at_ms) / HALF_LIFE_MS)
