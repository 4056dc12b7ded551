"""Keeps leadership even: chooses who leads a partition more among those that could.

Of the replicas of a broker that goes that one leads which has the least load by the brokers' last heartbeats,
and where that is alike the fewest partitions. A new partition has no load yet, so for it the two count
together: a broker's share of the load and its share of the leaders. What is given to a broker counts at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.metadata_raft.image import MetadataImage

SHARE: Final = 10**9  # whole numbers add up to the same in any order
LEADER: Final = 10**12  # more than all shares


class LeaderSpread:
    """The leaders of one image, and those that a decision over it adds. Deterministic."""

    def __init__(self, image: MetadataImage, loads: Mapping[int, int], leaving: int | None = None) -> None:
        """`loads` has the load of brokers, in bytes a second (`LeaderLoad`); `leaving` leads no longer, and
        each of its partitions is taken to have an equal part of its load.
        """
        self._counts = Counter(image.topics.leader_counts)
        self._loads: dict[int, float] = dict(loads)
        self._part = 0.0
        if leaving is not None:
            self._part = self._loads.get(leaving, 0) / max(1, self._counts[leaving])

    def choose(self, candidates: Sequence[int]) -> int:
        """Return which of the candidates, the most preferred first, leads one partition more."""
        loads, counts = self._loads, self._counts
        chosen = min(candidates, key=lambda broker_id: (loads.get(broker_id, 0), counts[broker_id]))
        loads[chosen] = loads.get(chosen, 0) + self._part
        counts[chosen] += 1
        return chosen

    def add(self, leaders: Iterable[int]) -> None:
        """Count the leaders of new partitions."""
        self._counts.update(leaders)

    def least_led(self, ring: Sequence[int], begin: int, length: int, of_topic: Mapping[int, int]) -> int:
        """Return the place in a ring of brokers from which on `length` neighbours lead least.

        They lead few of the topic's partitions, and then little of all; of places that are alike it is the
        first from `begin` on.
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
