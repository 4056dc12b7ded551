"""Elements that a request repeats are answered once.

An answer is as large as what it describes: thousands of members, partitions or offsets. If each repetition
got an answer of its own, as in Apache Kafka, a request of 100 kB could take all memory. No client names one
twice.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def once_each(elements: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """Return the first element of each key, in their order."""
    found: dict[Hashable, T] = {}
    for one in elements:
        found.setdefault(key(one), one)
    return list(found.values())


def names_once(names: Iterable[str]) -> list[str]:
    """Return each name once, in their order."""
    return list(dict.fromkeys(names))
