"""Which of the replicas that could take over from a broker does, so that leadership stays even.

The choice goes by what brokers said of their load with their last heartbeats, and where that is alike by the
number of partitions that they lead. What is about to be given to a broker counts at once: of the load of the
broker that goes, each of its partitions is taken to have an equal part.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.metadata_raft.image import MetadataImage


class LeaderSpread:
    """The leaders of one image, and those that a decision over it adds. Deterministic."""

    def __init__(self, image: MetadataImage, leaving: int, loads: Mapping[int, int]) -> None:
        """`loads` has the load of brokers, in bytes a second (`LeaderLoad`); `leaving` leads no longer."""
        self._counts = Counter(
            partition.leader for topic in image.topics.by_name.values() for partition in topic.partitions
        )
        self._loads: dict[int, float] = dict(loads)
        self._part = self._loads.get(leaving, 0) / max(1, self._counts[leaving])

    def choose(self, candidates: Sequence[int]) -> int:
        """Return which of the candidates, the most preferred first, leads one partition more."""
        loads, counts = self._loads, self._counts
        chosen = min(candidates, key=lambda broker_id: (loads.get(broker_id, 0), counts[broker_id]))
        loads[chosen] = loads.get(chosen, 0) + self._part
        counts[chosen] += 1
        return chosen
