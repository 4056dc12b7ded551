"""Room for peers and administrators beyond the limits of connections.

A node whose limits are used up by clients could not follow a leader that dials it, and no administrator could
look at it or raise the limits. So a few connections from this machine are let in beyond the limits, and a few
from anywhere. The latter have seconds to prove, by the handshake of peers, that they come from nodes of the
cluster, or, by a login or a certificate, from administrators. Until then nothing else is served to them.
Possible peers and clients that may only log in have separate places. If many connections have proven nothing,
the address with the most of them loses its oldest. An address has only a few places to log in: it pushes out
its own connections alone.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla.node.net.connection_info import ConnectionInfo, network_of
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi

# Not one: each program of an administrator has a connection to the address that it was given and one to the
# node found there, and the REST API of this node sends its requests over connections of its own, which it
# keeps.
MAX_LOCAL: Final = 32
MAX_ADMINISTRATORS: Final = 32  # from elsewhere
MAX_UNPROVEN: Final = 64  # possible peers, and as many possible administrators
MAX_LOGGING_IN: Final = 4  # of one address; of IPv6, one /64 network
PROOF_SECONDS: Final = 3.0  # a peer proves itself in two round trips, an administrator in four
_OPENING_KEYS: Final = frozenset(
    key.to_bytes(2, "big") for key in (int(ApiKey.API_VERSIONS), int(PeerApi.PEER_HANDSHAKE))
)


class Admitted(Protocol):
    """A connection, by the members that the reserve needs."""

    @property
    def info(self) -> ConnectionInfo: ...
    def serve_only_opening(self) -> None: ...
    def abort(self, reason: str) -> None: ...


class _Unproven(NamedTuple):
    """A connection that has proven nothing yet: why the limits refuse it, its network, and its timer."""

    refusal: str
    network: str
    end: asyncio.TimerHandle


class ConnectionReserve:
    """The connections of a node beyond its limits, over all listeners."""

    __slots__ = ("_administrators", "_local", "_logging_in", "_unproven")

    def __init__(self) -> None:
        self._local: set[Admitted] = set()
        self._administrators: set[Admitted] = set()
        # The oldest first: those that may be peers, and those that may only log in.
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
        """Let in a connection that the limits refuse; return the refusal if it is not let in, or "".

        Only connections from this machine, and those that may be a peer's or may log in, are let in.
        """
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
        """Return the refusal of a connection beyond the limits that has proven nothing yet, or ""."""
        held = self._unproven.get(connection) or self._logging_in.get(connection)
        return "" if held is None else held.refusal

    def admit_administrator(self, connection: Admitted) -> None:
        """Keep a connection that is proven to be an administrator's, if there is room for it.

        Without room it stays as it was, and is closed when its time to prove itself is over.
        """
        if len(self._administrators) < MAX_ADMINISTRATORS:
            self.leave(connection)
            self._administrators.add(connection)

    def is_administrator(self, connection: Admitted) -> bool:
        """Return True if a connection has a place reserved for administrators."""
        return connection in self._administrators

    def leave(self, connection: Admitted) -> None:
        """Forget a connection that is proven to be a peer's, or has ended."""
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
    """Return True if a frame requests ApiVersions or belongs to the handshake of peers."""
    return bytes(frame[:2]) in _OPENING_KEYS
