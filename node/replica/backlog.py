"""A queue of partitions with pending work on this node, by topic.

A topic has up to ten thousand partitions, so they are added a topic at a time, and the work on them is done
in turns with the event loop. They are taken from the topics in rotation: a small topic does not wait for a
large one.
"""

from collections import deque
from collections.abc import Iterable


class Backlog:
    """The queue. Each partition is in it at most once, with a mark of its own."""

    __slots__ = ("_by_topic", "_turns")

    def __init__(self) -> None:
        # Partitions are taken from the end: a search from the front would pass the slots of removed ones.
        self._by_topic: dict[str, dict[int, bool]] = {}
        self._turns: deque[str] = deque()  # of topics; dropped ones are skipped

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __contains__(self, topic_partition: tuple[str, int]) -> bool:
        topic, index = topic_partition
        return index in self._by_topic.get(topic, ())

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def add(self, topic: str, indexes: Iterable[int], *, mark: bool = False) -> None:
        """Add partitions of a topic; those already waiting get this mark instead."""
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
        """Remove a partition and return its mark; None if it is not waiting."""
        topic, index = topic_partition
        waiting = self._by_topic.get(topic)
        if waiting is None:
            return None
        mark = waiting.pop(index, None)
        if not waiting:
            self.drop(topic)
        return mark

    def take_next(self) -> tuple[str, int, bool]:
        """Remove the partition whose turn it is and return it with its mark; its topic goes to the back."""
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
        """Remove all partitions of a topic."""
        self._by_topic.pop(topic, None)
        if not self._by_topic:
            self._turns.clear()
