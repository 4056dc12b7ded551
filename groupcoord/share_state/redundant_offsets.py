"""Up to which offset the log of a shard says nothing that is not said later: Kafka's
ShareCoordinatorOffsetsManager.

A snapshot makes all before it redundant that was said of its share-partition, so the log may begin at the
earliest of the last snapshots. What is deleted counts until the next snapshot of another share-partition.
"""

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey


class RedundantOffsets:
    """The offsets of the last snapshots, told in the order of the log."""

    __slots__ = ("_snapshots", "_start_offset")

    def __init__(self) -> None:
        # In the order of offsets, so the first is the least.
        self._snapshots: dict[SharePartitionKey, int] = {}
        self._start_offset: int | None = None

    def snapshot_at(self, key: SharePartitionKey, offset: int, *, is_tombstone: bool) -> None:
        """Note where a snapshot or a tombstone is."""
        snapshots = self._snapshots
        snapshots.pop(key, None)
        snapshots[key] = offset
        self._start_offset = next(iter(snapshots.values()))
        if is_tombstone:
            del snapshots[key]

    @property
    def start_offset(self) -> int | None:
        """The offset at which the log may begin, None while that is its beginning."""
        return self._start_offset or None

    def __len__(self) -> int:
        return len(self._snapshots)
