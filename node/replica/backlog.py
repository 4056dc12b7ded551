"""Partitions for which something is still to be done here, by topic.

A topic has up to ten thousand partitions, so they are put down a topic at a time, and what is done about them
is done in turns with the event loop. They are taken from each topic in turn: a small one does not wait for a
large one.
"""

from collections.abc import Iterable


class Backlog:
    """Each partition stands in it once, with a mark of its own."""

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, bool]] = {}  # who waited longest comes first

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __contains__(self, topic_partition: tuple[str, int]) -> bool:
        topic, index = topic_partition
        return index in self._by_topic.get(topic, ())

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def add(self, topic: str, indexes: Iterable[int], *, mark: bool = False) -> None:
        """Put down partitions of a topic; those that wait already get this mark instead."""
        added = dict.fromkeys(indexes, mark)
        if added:
            self._by_topic.setdefault(topic, {}).update(added)

    def take(self, topic_partition: tuple[str, int]) -> bool | None:
        """Take a partition out and return its mark; None if it does not wait."""
        topic, index = topic_partition
        waiting = self._by_topic.get(topic)
        if waiting is None:
            return None
        mark = waiting.pop(index, None)
        if not waiting:
            del self._by_topic[topic]
        return mark

    def first(self) -> tuple[str, int]:
        """Return the partition whose turn it is; its topic goes behind the others."""
        topic = next(iter(self._by_topic))
        waiting = self._by_topic.pop(topic)
        self._by_topic[topic] = waiting
        return topic, next(iter(waiting))
