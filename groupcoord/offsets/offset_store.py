"""The committed offsets of a shard's groups: group id -> topic -> partition -> value.

Values are kept in the bytes of the log and decoded when they are read: a shard may hold a million offsets,
and loads them without decoding. Only readable values get in.
"""

from collections.abc import Iterator, Mapping, Sequence, Set

from ottla.groupcoord.group_records import OffsetCommitValue
from ottla.groupcoord.offsets.offset_bytes import OFFSET_BYTES, TOPIC_BYTES
from ottla.groupcoord.offsets.offset_values import read_offset_value

# group id -> topic -> partition -> value
Offsets = dict[str, dict[str, dict[int, bytes]]]


class OffsetStore:
    """The offsets that the log's records add up to; changed by replay only. It owns the given `offsets`."""

    def __init__(self, offsets: Offsets | None = None) -> None:
        self._groups: Offsets = offsets if offsets is not None else {}
        self._readers = self._by_topic()  # topic -> the groups that have offsets of it
        self.count, self.size_bytes = self._counted()

    def put(self, group_id: str, topic: str, partition: int, value: bytes) -> None:
        """Keep a value, of bytes that `offset_values` can read."""
        self.put_all(group_id, topic, (partition,), (value,))

    def put_all(self, group_id: str, topic: str, partitions: Sequence[int], values: Sequence[bytes]) -> None:
        """Keep values of several partitions; the last value of a partition that is named twice counts."""
        known = self._groups.setdefault(group_id, {}).setdefault(topic, {})
        fresh = dict(zip(partitions, values, strict=True))
        before = len(known)
        if not before:
            self.size_bytes += TOPIC_BYTES
            self._readers.setdefault(topic, set()).add(group_id)
        replaced = sum([len(known[one]) for one in fresh if one in known]) if before else 0
        known.update(fresh)
        added = len(known) - before
        self.count += added
        self.size_bytes += OFFSET_BYTES * added + sum(map(len, fresh.values())) - replaced

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.get(group_id)
        partitions = topics.get(topic) if topics else None
        value = partitions.get(partition) if partitions else None
        return read_offset_value(value) if value is not None else None

    def topics_of(self, group_id: str) -> Mapping[str, Mapping[int, bytes]]:
        """Return topic -> partition -> value for `read_offset_value`; empty for a group without offsets."""
        return self._groups.get(group_id, {})

    def readers_of(self, topic: str) -> Set[str]:
        """Return the groups that have offsets of a topic."""
        return self._readers.get(topic, frozenset())

    def has_any(self, group_id: str) -> bool:
        return group_id in self._groups

    def groups(self) -> Iterator[str]:
        return iter(self._groups)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id)
        partitions = topics.get(topic) if topics else None
        value = partitions.pop(partition, None) if partitions else None
        if topics is None or value is None:
            return
        self.count -= 1
        self.size_bytes -= OFFSET_BYTES + len(value)
        if not partitions:
            self.size_bytes -= TOPIC_BYTES
            del topics[topic]
            readers = self._readers[topic]
            readers.discard(group_id)
            if not readers:
                del self._readers[topic]
        if not topics:
            del self._groups[group_id]

    def check_invariants(self) -> None:
        assert (self.count, self.size_bytes) == self._counted()
        assert self._readers == self._by_topic()
        assert all(topics and all(topics.values()) for topics in self._groups.values())

    def _by_topic(self) -> dict[str, set[str]]:
        readers: dict[str, set[str]] = {}
        for group_id, topics in self._groups.items():
            for topic in topics:
                readers.setdefault(topic, set()).add(group_id)
        return readers

    def _counted(self) -> tuple[int, int]:
        """Return the number of offsets, and the bytes that they take."""
        count = size_bytes = 0
        for topics in self._groups.values():
            size_bytes += TOPIC_BYTES * len(topics)
            for partitions in topics.values():
                count += len(partitions)
                size_bytes += OFFSET_BYTES * len(partitions) + sum(map(len, partitions.values()))
        return count, size_bytes
