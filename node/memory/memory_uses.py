"""How much of its memory each part of a node uses: what the budget divides, counted where it is held."""

from collections.abc import Callable
from typing import Protocol


class CountsBytes(Protocol):
    """A part that knows what it holds, and the most that it may."""

    @property
    def used_bytes(self) -> int: ...
    @property
    def limit_bytes(self) -> int: ...


class MemoryUses:
    """Parts are counted by those who make them, under the names of `MemoryBudget`."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {}

    def count(self, name: str, part: CountsBytes) -> None:
        """Ask a part that counts by itself."""
        self.count_by(name, lambda: part.used_bytes, lambda: part.limit_bytes)

    def count_by(self, name: str, used_bytes: Callable[[], int], limit_bytes: Callable[[], int]) -> None:
        """Ask these for the bytes that a part holds, and for the most that it may."""
        assert name not in self._parts, f"{name} is counted already"
        self._parts[name] = used_bytes, limit_bytes

    def read(self) -> dict[str, tuple[int, int]]:
        """Return what each part uses now, and the most that it may."""
        return {name: (used(), limit()) for name, (used, limit) in self._parts.items()}
