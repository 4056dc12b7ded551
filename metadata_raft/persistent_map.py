"""An immutable mapping: applying changes returns another map that shares nearly all of its memory.

Copying a dict of 50,000 entries takes milliseconds, which is too long for a single change. Here the entries
lie in small dicts, the leaves of a tree that branches by the bits of the keys' hashes, so one change copies
one leaf and the few branches above it.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")

_BITS: Final = 5  # of the hash, for each level of branches
_WIDTH: Final = 1 << _BITS
_MASK: Final = _WIDTH - 1
_LARGEST_LEAF: Final = 64  # copied in about a microsecond
_DEEPEST: Final = 50  # bits; keys whose hashes agree in all of them share a leaf, however large it gets

_Node: TypeAlias = dict[K, V] | tuple["_Node[K, V]", ...]


class PersistentMap(Generic[K, V]):
    """An immutable mapping of keys to values, in no particular order."""

    __slots__ = ("_root", "_size")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._root: _Node[K, V] = {}
        self._size = 0
        if entries:
            self._root = _changed({}, [(hash(key), key, value) for key, value in entries.items()], 0)
            self._size = len(entries)

    def changed(self, changes: Mapping[K, V | None]) -> "PersistentMap[K, V]":
        """Return a map with these values set, without the keys whose new value is None."""
        if not changes:
            return self
        after: PersistentMap[K, V] = PersistentMap()
        root = self._root
        if isinstance(root, dict) and len(root) + len(changes) <= _LARGEST_LEAF:
            after._root = leaf = _changed_leaf(root, changes)
            after._size = len(leaf)
            return after
        size = self._size
        for key, value in changes.items():
            size += (value is not None) - (key in self)
        if size:
            items = [(hash(key), key, value) for key, value in changes.items()]
            after._root, after._size = _changed(root, items, 0), size
        return after

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Return the value of the key, or `default` if there is none."""
        node = self._root
        if type(node) is dict:
            return node.get(key, default)
        bits = hash(key)
        while type(node) is tuple:
            node = node[bits & _MASK]
            bits >>= _BITS
        return node.get(key, default)  # type: ignore[union-attr]

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for key, _ in self.items():
            yield key

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield the keys with their values."""
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            if isinstance(node, dict):
                yield from node.items()
            else:
                nodes.extend(node)

    def values(self) -> Iterator[V]:
        """Yield the values."""
        for _, value in self.items():
            yield value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PersistentMap):
            return NotImplemented
        if self is other:
            return True
        return len(self) == len(other) and all(other.get(key) == value for key, value in self.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self.items())!r})"


def _changed_leaf(leaf: dict[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    after = dict(leaf)
    for key, value in changes.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def _changed(node: _Node[K, V], items: list[tuple[int, K, V | None]], shift: int) -> _Node[K, V]:
    """Return a copy of the node with these changes, each as (hash of the key, key, value)."""
    if isinstance(node, dict):
        leaf = _changed_leaf(node, {key: value for _, key, value in items})
        if len(leaf) <= _LARGEST_LEAF or shift > _DEEPEST:
            return leaf
        items = [(hash(key), key, value) for key, value in leaf.items()]
        node = ({},) * _WIDTH
    slots: dict[int, list[tuple[int, K, V | None]]] = {}
    for item in items:
        slots.setdefault(item[0] >> shift & _MASK, []).append(item)
    branches = list(node)
    for slot, some in slots.items():
        branches[slot] = _changed(branches[slot], some, shift + _BITS)
    return tuple(branches)
