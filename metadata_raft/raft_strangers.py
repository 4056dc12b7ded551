"""The connections that have not proven anything yet: few at a time, and no crowd keeps others out.

A new one is always let in. When there are too many, the one that has waited longest goes, of the place that
has most of them: so whoever opens many connections pushes out his own. A place is an address, of IPv6 what
one host may choose from (/64). That of a voter has more room than others: connections from as many places as
there is room for push nobody out who comes from where a voter was last reached.
"""

import ipaddress
from typing import Final, Protocol

# Voters are at most 15, and brokers ask rarely.
MAX_STRANGERS: Final = 64
VOTER_ROOM: Final = 4  # both ends dial, and each may dial again before the first is known to be dead


class Stranger(Protocol):
    """A connection."""

    @property
    def peer_host(self) -> str:
        """The address that it comes from."""

    def abort(self) -> None:
        """End it without another word."""


class Strangers:
    """Who waits, and for whom somebody must go."""

    def __init__(self, max_strangers: int = MAX_STRANGERS) -> None:
        self._max_strangers = max_strangers
        self._places: dict[str, dict[Stranger, None]] = {}  # in each, who has waited longest comes first
        self._places_of_voters: dict[int, str] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note_voter(self, node_id: int, host: str) -> None:
        """A voter was reached at this address, or proved itself from there."""
        self._places_of_voters[node_id] = place_of(host)

    def keep_voters(self, node_ids: set[int]) -> None:
        """Forget where all others were."""
        for gone in set(self._places_of_voters) - node_ids:
            del self._places_of_voters[gone]

    def enter(self, stranger: Stranger) -> Stranger | None:
        """Let one in; who must go for it, if anybody."""
        self._places.setdefault(place_of(stranger.peer_host), {})[stranger] = None
        self._count += 1
        if self._count <= self._max_strangers:
            return None
        oldest = next(iter(self._places[self._most_crowded()]))
        self.leave(oldest)
        return oldest

    def _most_crowded(self) -> str:
        known = set(self._places_of_voters.values())
        return max(self._places, key=lambda place: len(self._places[place]) - VOTER_ROOM * (place in known))

    def leave(self, stranger: Stranger) -> None:
        """It proved itself, or is gone; nothing happens if it was pushed out before."""
        place = place_of(stranger.peer_host)
        waiting = self._places.get(place, {})
        if stranger in waiting:
            del waiting[stranger]
            self._count -= 1
            if not waiting:
                del self._places[place]


def place_of(host: str) -> str:
    """What counts as one place."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
