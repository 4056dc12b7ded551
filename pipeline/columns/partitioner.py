"""The choice of a row's partition: the one it names, the choice of Java's producer for its key, or any."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ottla.pipeline.columns.murmur2 import murmur2
from ottla.pipeline.words import OptionError

_WITHOUT_SIGN: Final = np.uint32(0x7FFFFFFF)

Partitions = NDArray[np.int64]


class Sticky:
    """The partition of rows without a key: one for a batch of rows, the next one for the next batch.

    `begin_at` is any number that differs from task to task: tasks that all begin at partition 0 would fill
    that one first.
    """

    def __init__(self, begin_at: int) -> None:
        self._begin_at = begin_at
        self._next: dict[str, int] = {}

    def partition(self, topic: str, partitions_count: int) -> int:
        """Return the next partition of `topic`."""
        partition = self._next.get(topic, self._begin_at) % partitions_count
        self._next[topic] = partition + 1
        return partition


def partitions_of(
    topic: str,
    rows: int,
    keys: pa.BinaryArray | None,
    chosen: pa.Int32Array | None,
    partitions_count: int,
    sticky: Sticky,
) -> Partitions:
    """Return the partition of each of `rows` rows; OptionError for a chosen one that the topic lacks."""
    if partitions_count == 1:
        partitions = np.zeros(rows, np.int64)
    elif keys is None or keys.null_count == rows:
        partitions = np.full(rows, sticky.partition(topic, partitions_count), np.int64)
    else:
        partitions = ((murmur2(keys) & _WITHOUT_SIGN) % np.uint32(partitions_count)).astype(np.int64)
        if keys.null_count:
            partitions[np.asarray(keys.is_null())] = sticky.partition(topic, partitions_count)
    if chosen is None or chosen.null_count == rows:
        return partitions
    wanted = np.asarray(pc.fill_null(chosen, 0)).astype(np.int64)
    wrong = np.flatnonzero((wanted < 0) | (wanted >= partitions_count))
    if len(wrong):
        raise OptionError(
            "partition", f"is {wanted[wrong[0]]} in a row, but {topic} has {partitions_count} partitions"
        )
    return np.where(np.asarray(chosen.is_null()), partitions, wanted)
