"""The order in which topics are cleaned that took much of a cleaner's time before.

Batches of some kB may open into millions of records, so a round over one log may take minutes. Without this
order, a topic of such batches, which is always the dirtiest, would keep all others from being cleaned.
"""

import math
from collections.abc import Set
from typing import Final

ROUND_CPU_S: Final = 10.0  # after which a round indexes no further batch, and a topic's next one is put off
HALF_LIFE_MS: Final = 600_000
FORGOTTEN_S: Final = ROUND_CPU_S / 10


class CleaningCosts:
    """The CPU seconds that rounds of each topic took; half of them are forgotten in ten minutes."""

    __slots__ = ("_costs",)

    def __init__(self) -> None:
        self._costs: dict[str, tuple[float, int]] = {}  # by topic: seconds, and when that was so

    def add(self, topic: str, cpu_s: float, now_ms: int) -> None:
        """Count a part of a round."""
        total_s = self._cost_s(topic, now_ms) + cpu_s
        self._costs[topic] = (total_s, now_ms)

    def rounds(self, topic: str, now_ms: int) -> int:
        """Return how many rounds of ROUND_CPU_S a topic has had lately: others with fewer go first."""
        cost_s = self._cost_s(topic, now_ms)
        if cost_s < FORGOTTEN_S:
            self._costs.pop(topic, None)
        return int(cost_s / ROUND_CPU_S)

    def keep_only(self, topics: Set[str]) -> None:
        """Forget the topics that are gone."""
        for topic in self._costs.keys() - topics:
            del self._costs[topic]

    def _cost_s(self, topic: str, now_ms: int) -> float:
        cost_s, at_ms = self._costs.get(topic, (0.0, now_ms))
        return cost_s * math.exp2(-max(0, now_ms - at_ms) / HALF_LIFE_MS)
