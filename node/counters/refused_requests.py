"""Requests in versions that this node does not serve: whose they were, for whoever looks for old clients.

A connection that asks so is closed, for no answer could be read; what is kept here is all that is left.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_KINDS: Final = 64  # a client may ask anything; the first kinds are enough to find it


class RefusedRequest(NamedTuple):
    """A kind of request; `software` is empty of a client that did not name itself (KIP-511)."""

    software: str
    api_key: int
    version: int


class RefusedRequests:
    """How often each kind came."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[RefusedRequest, int] = {}

    def add(self, software: str, api_key: int, version: int) -> None:
        """One more of them."""
        kind = RefusedRequest(software, api_key, version)
        if kind in self._counts or len(self._counts) < MAX_KINDS:
            self._counts[kind] = self._counts.get(kind, 0) + 1

    def kinds(self) -> Sequence[tuple[RefusedRequest, int]]:
        """All kinds, sorted, with how often each came."""
        return sorted(self._counts.items())
