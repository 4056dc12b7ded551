"""Elements that a request repeats are answered once.

An answer is as large as what it describes: thousands of members, partitions or offsets. If each repetition
got an answer of its own, as in Apache Kafka, a request of 100 kB could take all memory. No client names one
twice.
"""

from collections.abc import Hashable, Iterable
from typing import Protocol, TypeVar


class RequestedGroup(Protocol):
    """A group of which a request wants the offsets of some topics, or of all (None)."""

    @property
    def group_id(self) -> str: ...
    @property
    def topics(self) -> object: ...


G = TypeVar("G", bound=RequestedGroup)


def whole_groups_once(groups: Iterable[G]) -> list[G]:
    """Return the groups in their order; a group of which all topics are wanted (None) only once."""
    found: dict[Hashable, G] = {}
    for one in groups:
        found.setdefault(one.group_id if one.topics is None else id(one), one)
    return list(found.values())


def names_once(names: Iterable[str]) -> list[str]:
    """Return each name once, in their order."""
    return list(dict.fromkeys(names))
