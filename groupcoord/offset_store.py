"""The committed offsets of a shard's groups: group id -> topic -> partition -> value."""

from collections.abc import Iterator

from groupcoord.group_records import OffsetCommitValue, OffsetRecord


class OffsetStore:
    """What the log's offset records add up to; changed by `replay` only."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}
        self.count = 0

    def replay(self, record: OffsetRecord) -> None:
        if record.value is None:
            self._remove(record)
            return
        partitions = self._groups.setdefault(record.group_id, {}).setdefault(record.topic, {})
        if record.partition not in partitions:
            self.count += 1
        partitions[record.partition] = record.value

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.get(group_id)
        partitions = topics.get(topic) if topics else None
        return partitions.get(partition) if partitions else None

    def topics_of(self, group_id: str) -> dict[str, dict[int, OffsetCommitValue]]:
        """Topic -> partition -> value, to be read only; empty for a group without offsets."""
        return self._groups.get(group_id, {})

    def groups(self) -> Iterator[str]:
        return iter(self._groups)

    def tombstones(self, group_id: str) -> list[OffsetRecord]:
        """Records that remove all offsets of a group."""
        return [
            OffsetRecord(group_id, topic, partition, None)
            for topic, partitions in self.topics_of(group_id).items()
            for partition in partitions
        ]

    def _remove(self, record: OffsetRecord) -> None:
        topics = self._groups.get(record.group_id)
        partitions = topics.get(record.topic) if topics else None
        if topics is None or partitions is None or partitions.pop(record.partition, None) is None:
            return
        self.count -= 1
        if not partitions:
            del topics[record.topic]
        if not topics:
            del self._groups[record.group_id]

    def check_invariants(self) -> None:
        assert self.count == sum(len(p) for topics in self._groups.values() for p in topics.values())
        assert all(topics and all(topics.values()) for topics in self._groups.values())
