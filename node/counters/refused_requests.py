"""Requests in versions that this node does not serve, with their clients, to find old ones.

The connection of such a request is closed, since the client could not read any response; only this remains.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_KINDS: Final = 64  # clients choose what they send; the first kinds are enough to find one


class RefusedRequest(NamedTuple):
    """A kind of request; `software` is empty if the client did not send its name (KIP-511)."""

    software: str
    api_key: int
    version: int


class RefusedRequests:
    """The number of requests of each kind."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[RefusedRequest, int] = {}

    def add(self, software: str, api_key: int, version: int) -> None:
        """Count a request."""
        kind = RefusedRequest(software, api_key, version)
        if kind in self._counts or len(self._counts) < MAX_KINDS:
            self._counts[kind] = self._counts.get(kind, 0) + 1

    def kinds(self) -> Sequence[tuple[RefusedRequest, int]]:
        """Return all kinds, sorted, with their numbers."""
        return sorted(self._counts.items())
