"""Partitions for which something is still to be done here, by topic.

A topic has up to ten thousand partitions, so they are put down a topic at a time, and what is done about them
is done in turns with the event loop. They are taken from each topic in turn: a small one does not wait for a
large one.
"""

from collections import deque
from collections.abc import Iterable


class Backlog:
    """Each partition stands in it once, with a mark of its own."""

    __slots__ = ("_by_topic", "_turns")

    def __init__(self) -> None:
        # Of each topic the last one goes next: from the front of a dict each look would pass those that went.
        self._by_topic: dict[str, dict[int, bool]] = {}
        self._turns: deque[str] = deque()  # of topics; those that were dropped meanwhile are passed over

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __contains__(self, topic_partition: tuple[str, int]) -> bool:
        topic, index = topic_partition
        return index in self._by_topic.get(topic, ())

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def add(self, topic: str, indexes: Iterable[int], *, mark: bool = False) -> None:
        """Put down partitions of a topic; those that wait already get this mark instead."""
        added = dict.fromkeys(reversed(list(indexes)), mark)
        if not added:
            return
        waiting = self._by_topic.get(topic)
        if waiting is None:
            self._by_topic[topic] = added
            self._turns.append(topic)
        else:
            waiting.update(added)

    def take(self, topic_partition: tuple[str, int]) -> bool | None:
        """Take a partition out and return its mark; None if it does not wait."""
        topic, index = topic_partition
        waiting = self._by_topic.get(topic)
        if waiting is None:
            return None
        mark = waiting.pop(index, None)
        if not waiting:
            self.drop(topic)
        return mark

    def take_next(self) -> tuple[str, int, bool]:
        """Take the partition whose turn it is, with its mark; its topic goes behind the others."""
        while (topic := self._turns.popleft()) not in self._by_topic:
            pass
        waiting = self._by_topic[topic]
        index, mark = waiting.popitem()
        if waiting:
            self._turns.append(topic)
        else:
            self.drop(topic)
        return topic, index, mark

    def drop(self, topic: str) -> None:
        """Take out all partitions of a topic."""
        self._by_topic.pop(topic, None)
        if not self._by_topic:
            self._turns.clear()
