"""The topics that a group subscribes to, with the number of its members or expressions that want each."""

from collections.abc import Collection, Iterable, Mapping


class SubscribedTopics:
    """Counts by topic name; `groups_by_topic` (topic -> ids of subscribed groups) is kept in step."""

    def __init__(self, group_id: str, groups_by_topic: dict[str, set[str]]) -> None:
        self._group_id = group_id
        self._groups_by_topic = groups_by_topic
        self._counts: dict[str, int] = {}

    @property
    def names(self) -> Collection[str]:
        """The names that a member or an expression wants, whether such topics exist or not."""
        return self._counts.keys()

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of members or expressions that want each topic."""
        return self._counts

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def add(self, names: Iterable[str], difference: int) -> None:
        """Add `difference` to the count of these topics: members or expressions that want them changed."""
        for name in names:
            count = self._counts.get(name, 0) + difference
            if count > 0:
                if name not in self._counts:
                    self._groups_by_topic.setdefault(name, set()).add(self._group_id)
                self._counts[name] = count
            else:
                self._counts.pop(name, None)
                groups = self._groups_by_topic.get(name, set())
                groups.discard(self._group_id)
                if not groups:
                    self._groups_by_topic.pop(name, None)

    def forget(self) -> None:
        """Unsubscribe the group, which is gone, from all of its topics."""
        for name, count in list(self._counts.items()):
            self.add((name,), -count)

    def names_after(self, change: Mapping[str, int]) -> set[str]:
        """Return the names that are wanted once the counts have changed by `change`."""
        names = set(self._counts)
        for name, difference in change.items():
            if self._counts.get(name, 0) + difference > 0:
                names.add(name)
            else:
                names.discard(name)
        return names

    def check_invariants(self) -> None:
        """Assert the invariants that hold between any two commands of a live shard."""
        assert all(self._group_id in self._groups_by_topic[name] for name in self._counts)
        assert all(count > 0 for count in self._counts.values())
