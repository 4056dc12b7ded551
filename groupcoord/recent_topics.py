"""The topics that changed recently, so that regular expressions need not look at all names again."""

from collections import deque
from typing import Final

# Together some 100 kB a shard: a topic a second for half an hour.
MAX_CHANGES: Final = 2_000
MAX_NAMES: Final = 2_000


class RecentTopics:
    """Names of topics that were created, deleted or changed otherwise, by the version of the metadata."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, frozenset[str]]] = deque()
        self._name_count = 0
        self._known_since: int | None = None  # the version after which all changes are known, if any

    def restart(self, version: int) -> None:
        """Forget all changes; those up to this version are not known."""
        self._changes.clear()
        self._name_count = 0
        self._known_since = version

    def add(self, version: int, names: frozenset[str]) -> None:
        """Add the names that changed in a version; versions rise."""
        self._changes.append((version, names))
        self._name_count += len(names)
        while len(self._changes) > MAX_CHANGES or self._name_count > MAX_NAMES:
            self._known_since, dropped = self._changes.popleft()
            self._name_count -= len(dropped)

    def since(self, version: int) -> frozenset[str] | None:
        """Return the names that changed after a version, or None if not all of these changes are known."""
        if self._known_since is None or version < self._known_since:
            return None
        return frozenset().union(*(names for changed_in, names in self._changes if changed_in > version))
