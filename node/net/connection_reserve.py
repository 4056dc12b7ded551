"""Room for peers and for administrators where the limits of connections are reached.

A node whose limits are used up by clients could not follow a leader that dials it, and nobody could look at
it or raise the limits. So a few connections from this machine are let in beyond them, and a few from anywhere
that have seconds to prove that they are nodes of the cluster, by the handshake of peers, or administrators,
by a login or a certificate. Until they do, nothing else is served to them. Clients that may log in hold other
places than those that may be peers. Where many come that have proven nothing, the oldest of the address gives
way that has most of them; of those that may only log in, an address has a few: it pushes out its own alone.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla.node.net.connection_info import ConnectionInfo, network_of
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi

# Not one: each program of an administrator has a connection to the address that it was given and one to the
# node that is found there, and the REST API of this node asks through connections of its own, which it keeps.
MAX_LOCAL: Final = 32
MAX_ADMINISTRATORS: Final = 32  # from elsewhere
MAX_UNPROVEN: Final = 64  # of peers, and as many of administrators
MAX_LOGGING_IN: Final = 4  # of an address, of IPv6 a /64 network
PROOF_SECONDS: Final = 3.0  # a peer proves itself in two round trips, an administrator in four
_OPENING_KEYS: Final = frozenset(
    key.to_bytes(2, "big") for key in (int(ApiKey.API_VERSIONS), int(PeerApi.PEER_HANDSHAKE))
)


class Admitted(Protocol):
    """A connection, as the reserve sees it."""

    @property
    def info(self) -> ConnectionInfo: ...
    def serve_only_opening(self) -> None: ...
    def abort(self, reason: str) -> None: ...


class _Unproven(NamedTuple):
    """Why a connection was refused, where it comes from, and what ends it."""

    refusal: str
    network: str
    end: asyncio.TimerHandle


class ConnectionReserve:
    """The connections of a node beyond its limits, over all listeners."""

    __slots__ = ("_administrators", "_local", "_logging_in", "_unproven")

    def __init__(self) -> None:
        self._local: set[Admitted] = set()
        self._administrators: set[Admitted] = set()
        # The oldest first: those that may be peers, and those that may log in alone.
        self._unproven: dict[Admitted, _Unproven] = {}
        self._logging_in: dict[Admitted, _Unproven] = {}

    def admit(
        self,
        connection: Admitted,
        refusal: str,
        call_later: Callable[..., asyncio.TimerHandle],
        *,
        may_be_peer: bool,
        may_log_in: bool = False,
    ) -> str:
        """Let a connection in that the limits refuse; return the refusal where there is no room for it."""
        if connection.info.is_local and len(self._local) < MAX_LOCAL:
            self._local.add(connection)
            return ""
        if not (may_be_peer or may_log_in):
            return refusal
        held = self._unproven if may_be_peer else self._logging_in
        network = network_of(connection.info.client_host)
        counts = Counter(one.network for one in held.values())
        if not may_be_peer and counts[network] >= MAX_LOGGING_IN:
            self._give_up_oldest(held, network)
        elif len(held) >= MAX_UNPROVEN:
            self._give_up_oldest(held, counts.most_common(1)[0][0])
        end = call_later(PROOF_SECONDS, self._give_up, connection)
        held[connection] = _Unproven(refusal, network, end)
        connection.serve_only_opening()
        return ""

    def refusal_of(self, connection: Admitted) -> str:
        """Return why a connection is beyond the limits and has proven nothing yet, or ""."""
        held = self._unproven.get(connection) or self._logging_in.get(connection)
        return "" if held is None else held.refusal

    def let_in(self, connection: Admitted) -> None:
        """Keep a connection that has proven to be an administrator's, where there is room for it."""
        if len(self._administrators) < MAX_ADMINISTRATORS:
            self.leave(connection)
            self._administrators.add(connection)

    def is_administrators(self, connection: Admitted) -> bool:
        """Return whether a connection has the place of an administrator."""
        return connection in self._administrators

    def leave(self, connection: Admitted) -> None:
        """Forget a connection: it has proven to be a peer's, or has ended."""
        self._local.discard(connection)
        self._administrators.discard(connection)
        held = self._unproven.pop(connection, None) or self._logging_in.pop(connection, None)
        if held is not None:
            held.end.cancel()

    def _give_up_oldest(self, held: dict[Admitted, _Unproven], network: str) -> None:
        self._give_up(next(one for one, of_one in held.items() if of_one.network == network))

    def _give_up(self, connection: Admitted) -> None:
        refusal = self.refusal_of(connection)
        self.leave(connection)
        connection.abort(refusal)


def is_opening(frame: memoryview) -> bool:
    """Return whether a frame asks for versions or belongs to the handshake of peers."""
    return bytes(frame[:2]) in _OPENING_KEYS
