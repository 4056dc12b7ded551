"""Finds the offset before which the log of a shard is redundant: Kafka's ShareCoordinatorOffsetsManager.

A snapshot makes all earlier records of its share-partition redundant, so the log may begin at the earliest of
the last snapshots. A tombstone counts until the next snapshot of another share-partition.
"""

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey


class RedundantOffsets:
    """The offsets of the last snapshots, noted in the order of the log."""

    __slots__ = ("_snapshots", "_start_offset")

    def __init__(self) -> None:
        # In the order of offsets, so the first is the least.
        self._snapshots: dict[SharePartitionKey, int] = {}
        self._start_offset: int | None = None

    def note_snapshot(self, key: SharePartitionKey, offset: int, *, is_tombstone: bool) -> None:
        """Note the offset of a snapshot or a tombstone."""
        snapshots = self._snapshots
        snapshots.pop(key, None)
        snapshots[key] = offset
        self._start_offset = next(iter(snapshots.values()))
        if is_tombstone:
            del snapshots[key]

    @property
    def start_offset(self) -> int | None:
        """The offset at which the log may begin; None while it is the beginning of the log."""
        return self._start_offset or None

    def __len__(self) -> int:
        return len(self._snapshots)
