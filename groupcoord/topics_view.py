"""The cluster's topics as the coordinator of consumer groups sees them."""

from collections.abc import Iterable, Set
from typing import NamedTuple, Protocol


class TopicInfo(NamedTuple):
    """A topic's shape. `racks` has the racks of each partition's replicas, or nothing if none has a rack."""

    topic_id: bytes
    name: str
    num_partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


class TopicsView(Protocol):
    """The topics as of one version of the cluster's metadata; it never changes."""

    @property
    def version(self) -> int: ...

    def by_name(self, name: str) -> TopicInfo | None: ...

    def by_id(self, topic_id: bytes) -> TopicInfo | None: ...

    def names(self) -> Set[str]: ...


class ListedTopics:
    """A view of the given topics, for tests and for a coordinator that has no metadata yet."""

    def __init__(self, topics: Iterable[TopicInfo] = (), version: int = 0) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}
        self.version = version

    def by_name(self, name: str) -> TopicInfo | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        return self._by_id.get(topic_id)

    def names(self) -> Set[str]:
        return self._by_name.keys()
