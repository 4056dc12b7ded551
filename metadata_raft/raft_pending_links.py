"""Limits the connections that are not authenticated yet, so that a flood of them cannot keep voters out.

A new connection is always accepted. If there are too many, the oldest one from the place with the most of
them is closed, so a client that opens many connections closes its own. A place is an IPv4 address, or an IPv6
network of /64, from which one host may choose addresses. The last known place of a voter has more room than
others, so even connections from as many places as the limit allows do not close one from there.
"""

import ipaddress
from typing import Final, Protocol

# There are at most 15 voters, and brokers ask rarely.
MAX_PENDING_LINKS: Final = 64
VOTER_ROOM: Final = 4  # both ends dial, and may dial again before the first connection is found dead


class PendingLink(Protocol):
    """A connection that is not authenticated yet."""

    @property
    def peer_host(self) -> str:
        """The address of its other end."""

    def abort(self) -> None:
        """Close it at once."""


class PendingLinks:
    """The connections that are not authenticated yet."""

    def __init__(self, max_pending: int = MAX_PENDING_LINKS) -> None:
        self._max_pending = max_pending
        self._places: dict[str, dict[PendingLink, None]] = {}  # the oldest of each place first
        self._places_of_voters: dict[int, str] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note_voter(self, node_id: int, host: str) -> None:
        """Record the address at which a voter was reached, or from which it authenticated itself."""
        self._places_of_voters[node_id] = place_of(host)

    def keep_voters(self, node_ids: set[int]) -> None:
        """Forget the places of all other nodes."""
        for gone in set(self._places_of_voters) - node_ids:
            del self._places_of_voters[gone]

    def enter(self, link: PendingLink) -> PendingLink | None:
        """Add a connection; return the connection to close instead, if there are too many."""
        self._places.setdefault(place_of(link.peer_host), {})[link] = None
        self._count += 1
        if self._count <= self._max_pending:
            return None
        oldest = next(iter(self._places[self._most_crowded()]))
        self.leave(oldest)
        return oldest

    def _most_crowded(self) -> str:
        known = set(self._places_of_voters.values())
        return max(self._places, key=lambda place: len(self._places[place]) - VOTER_ROOM * (place in known))

    def leave(self, link: PendingLink) -> None:
        """Remove a connection that was authenticated or closed, if it was not removed before."""
        place = place_of(link.peer_host)
        waiting = self._places.get(place, {})
        if link in waiting:
            del waiting[link]
            self._count -= 1
            if not waiting:
                del self._places[place]


def place_of(host: str) -> str:
    """Return the place of an address: IPv4 as it is, of IPv6 the /64 network."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
