"""Keeps leadership even: chooses the leader of a partition among the brokers that could lead it.

When a broker leaves, each of its partitions gets the replica with the least load by the brokers' last
heartbeats as its leader, and among equal loads the one that leads the fewest partitions. A new partition has
no load yet, so its leader is chosen by the sum of a broker's share of the load and its share of the leaders.
Each choice counts at once for the following ones.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.metadata_raft.image import MetadataImage

SHARE: Final = 10**9  # integers, because their sum does not depend on the order
LEADER: Final = 10**12  # more than all shares


class LeaderSpread:
    """The leaders of one image, and those that one decision adds. Deterministic."""

    def __init__(self, image: MetadataImage, loads: Mapping[int, int], leaving: int | None = None) -> None:
        """Start from the leaders of the image.

        `loads` has the load of brokers, in bytes per second (`LeaderLoad`). `leaving` is a broker that stops
        leading; each of its partitions counts with an equal part of its load.
        """
        self._counts = Counter(image.topics.leader_counts)
        self._loads: dict[int, float] = dict(loads)
        self._part = 0.0
        if leaving is not None:
            self._part = self._loads.get(leaving, 0) / max(1, self._counts[leaving])

    def choose(self, candidates: Sequence[int]) -> int:
        """Return the candidate that gets one more partition to lead; the most preferred one comes first."""
        loads, counts = self._loads, self._counts
        chosen = min(candidates, key=lambda broker_id: (loads.get(broker_id, 0), counts[broker_id]))
        loads[chosen] = loads.get(chosen, 0) + self._part
        counts[chosen] += 1
        return chosen

    def add(self, leaders: Iterable[int]) -> None:
        """Count the leaders of new partitions."""
        self._counts.update(leaders)

    def least_led(self, ring: Sequence[int], begin: int, length: int, of_topic: Mapping[int, int]) -> int:
        """Return the index in a ring of brokers at which the `length` neighbours begin that lead least.

        The topic's own partitions count first, then the share of all. Among equal indexes it is the first one
        from `begin` on.
        """
        costs = [LEADER * of_topic.get(broker_id, 0) + share for broker_id, share in self._shares(ring)]
        costs = [*costs[begin:], *costs[:begin]] * 2
        best = least = sum(costs[:length])
        place = 0
        for offset in range(1, len(ring)):
            least += costs[offset + length - 1] - costs[offset - 1]
            if least < best:
                best, place = least, offset
        return (begin + place) % len(ring)

    def _shares(self, brokers: Sequence[int]) -> list[tuple[int, int]]:
        load = sum(self._loads.get(one, 0) for one in brokers)
        count = sum(self._counts[one] for one in brokers)
        return [
            (
                one,
                int(SHARE * self._loads.get(one, 0) / load if load else 0)
                + (SHARE * self._counts[one] // count if count else 0),
            )
            for one in brokers
        ]
