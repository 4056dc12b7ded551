"""Offsets that open transactions have written: they count once the commit marker is there, or never.

Of several writes to one key the latest in the log counts, whenever its marker comes (D13): a plain commit
after a transaction's write supersedes it, although the marker comes later still. A superseded pending offset
stays (the transaction is open, and a fetch of stable offsets must wait), but its value is dropped.
"""

from collections.abc import Collection
from typing import NamedTuple

from ottla.groupcoord.offsets.offset_bytes import PENDING_BYTES


class OffsetKey(NamedTuple):
    """The key of an offset."""

    group_id: str
    topic: str
    partition: int


_Entry = tuple[int, bytes | None]  # the order of the write; its value, None once it is superseded


class PendingOffsets:
    """Pending offsets by producer, by group, by key; empty when no transaction is open."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, _Entry]] = {}
        self._producers: dict[str, dict[OffsetKey, set[int]]] = {}  # group -> key -> its producers
        self._order = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def has(self, key: OffsetKey) -> bool:
        """Return True if a transaction may still change this offset."""
        keys = self._producers.get(key.group_id)
        return keys is not None and key in keys

    def keys_of(self, group_id: str) -> Collection[OffsetKey]:
        """Return the offsets of a group that open transactions may still change."""
        return self._producers.get(group_id, {}).keys()

    def groups(self) -> Collection[str]:
        return self._producers.keys()

    # ---- changes -------------------------------------------------------------------------------------------

    def put(self, producer_id: int, key: OffsetKey, value: bytes) -> None:
        """Add an offset that a transaction wrote."""
        self._order += 1
        entries = self._by_producer.setdefault(producer_id, {})
        self.size_bytes += _size_bytes(value) - (_size_bytes(entries[key][1]) if key in entries else 0)
        entries[key] = (self._order, value)
        self._producers.setdefault(key.group_id, {}).setdefault(key, set()).add(producer_id)

    def supersede(self, key: OffsetKey) -> None:
        """Supersede the pending values of an offset, for which a plain commit came."""
        self._supersede(key, self._order)

    def remove(self, key: OffsetKey) -> None:
        """Remove an offset, by a tombstone, with its pending values."""
        for producer_id in sorted(self._producers.get(key.group_id, {}).get(key, ())):
            entries = self._by_producer[producer_id]
            self.size_bytes -= _size_bytes(entries.pop(key)[1])
            if not entries:
                del self._by_producer[producer_id]
            self._unlink(key, producer_id)

    def end(self, producer_id: int, *, committed: bool) -> list[tuple[OffsetKey, bytes]]:
        """End the transaction of this producer; return the offsets that count from now on."""
        counted = []
        for key, (order, value) in self._by_producer.pop(producer_id, {}).items():
            self._unlink(key, producer_id)
            self.size_bytes -= _size_bytes(value)
            if committed and value is not None:
                self._supersede(key, order)
                counted.append((key, value))
        return counted

    def _supersede(self, key: OffsetKey, order: int) -> None:
        """Drop the pending values of this key that are not newer than `order`: they will never count."""
        for producer_id in self._producers.get(key.group_id, {}).get(key, ()):
            entries = self._by_producer[producer_id]
            if entries[key][0] <= order:
                self.size_bytes += PENDING_BYTES - _size_bytes(entries[key][1])
                entries[key] = (order, None)

    def _unlink(self, key: OffsetKey, producer_id: int) -> None:
        keys = self._producers[key.group_id]
        keys[key].discard(producer_id)
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._producers[key.group_id]

    def check_invariants(self) -> None:
        linked = {
            (producer_id, key)
            for keys in self._producers.values()
            for key, producers in keys.items()
            for producer_id in producers
        }
        assert self.size_bytes == sum(
            _size_bytes(value) for entries in self._by_producer.values() for _, value in entries.values()
        )
        assert linked == {(each, key) for each, entries in self._by_producer.items() for key in entries}
        assert all(self._by_producer.values()) and all(self._producers.values())
        assert all(producers for keys in self._producers.values() for producers in keys.values())


def _size_bytes(value: bytes | None) -> int:
    return PENDING_BYTES + (len(value) if value is not None else 0)
