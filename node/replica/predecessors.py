"""Who wrote to a partition of a deleted topic: producers that may go on with another topic of that name.

They do not begin with sequence 0 there, and librdkafka's end where that is refused (logstore D28). This is
kept in memory only, where the partition had a replica.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from logstore.producer_state import ProducerEntry
from logstore.topic_partition import TopicPartition

MAX_PARTITIONS: Final = 1_000  # the newest
MAX_PRODUCERS: Final = 1_000  # of each: 100 KB


class Predecessors:
    """The producers of the partitions that were deleted last."""

    def __init__(self) -> None:
        self._epochs: OrderedDict[TopicPartition, Mapping[int, int]] = OrderedDict()

    def remember(self, topic_partition: TopicPartition, producers: Iterable[ProducerEntry]) -> None:
        """These had written to the partition when it was deleted."""
        epochs = {entry.producer_id: entry.epoch for entry in islice(producers, MAX_PRODUCERS)}
        if not epochs:
            return
        self._epochs[topic_partition] = epochs
        self._epochs.move_to_end(topic_partition)
        if len(self._epochs) > MAX_PARTITIONS:
            self._epochs.popitem(last=False)

    def take(self, topic_partition: TopicPartition) -> Mapping[int, int]:
        """The epochs of those who wrote to the partition before it was deleted, by producer id."""
        return self._epochs.pop(topic_partition, {})
