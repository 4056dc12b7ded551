"""The memory that each part of a node uses, by the parts of the budget."""

from collections.abc import Callable
from typing import Protocol


class CountsBytes(Protocol):
    """A part that knows how many bytes it holds, and its limit."""

    @property
    def used_bytes(self) -> int: ...
    @property
    def limit_bytes(self) -> int: ...


class MemoryUses:
    """The readings of all parts, registered under the names of `MemoryBudget`."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {}

    def count(self, name: str, part: CountsBytes) -> None:
        """Register a part that counts its own bytes."""
        self.count_by(name, lambda: part.used_bytes, lambda: part.limit_bytes)

    def count_by(self, name: str, used_bytes: Callable[[], int], limit_bytes: Callable[[], int]) -> None:
        """Register a part by functions that return its bytes and its limit."""
        assert name not in self._parts, f"{name} is counted already"
        self._parts[name] = used_bytes, limit_bytes

    def read(self) -> dict[str, tuple[int, int]]:
        """Return the bytes in use and the limit of each part."""
        return {name: (used(), limit()) for name, (used, limit) in self._parts.items()}
