"""The topics that changed lately, so that expressions need not look at all names again."""

from collections import deque
from typing import Final

# Together some 100 kB a shard: a topic a second for half an hour.
MAX_CHANGES: Final = 2_000
MAX_NAMES: Final = 2_000


class RecentTopics:
    """Names of topics that were made or deleted, or changed otherwise, by the version of the metadata."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, frozenset[str]]] = deque()
        self._name_count = 0
        self._known_since: int | None = None  # all changes after this version are known; None: not one

    def restart(self, version: int) -> None:
        """Forget all; nothing is known of changes up to this version."""
        self._changes.clear()
        self._name_count = 0
        self._known_since = version

    def add(self, version: int, names: frozenset[str]) -> None:
        """Note what changed in a version; versions rise."""
        self._changes.append((version, names))
        self._name_count += len(names)
        while len(self._changes) > MAX_CHANGES or self._name_count > MAX_NAMES:
            self._known_since, dropped = self._changes.popleft()
            self._name_count -= len(dropped)

    def since(self, version: int) -> frozenset[str] | None:
        """The names that changed after a version; None where that is not known."""
        if self._known_since is None or version < self._known_since:
            return None
        return frozenset().union(*(names for changed_in, names in self._changes if changed_in > version))
