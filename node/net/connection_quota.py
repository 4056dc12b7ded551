"""The numbers of open connections of a node over all its listeners, and their limits.

There are limits for the node, for each listener and for each address. They may change while the node runs. A
lower limit holds for new connections; open ones stay, as in Apache Kafka.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.node.clock import monotonic_s
from ottla.node.net.connection_reserve import ConnectionReserve
from ottla.node.quota.connection_rates import ConnectionRates
from ottla.node.quota.rate import Windows

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits with Kafka's names and defaults; listeners in capitals, addresses as the socket reports them."""

    max_connections: int = NO_LIMIT
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)
    max_connections_per_ip: int = NO_LIMIT
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)


class ConnectionQuota:
    """Counts the open connections of a node against limits, which may change at any time."""

    __slots__ = (
        "_by_address",
        "_by_listener",
        "_count",
        "_limits",
        "_on_closed",
        "_open",
        "_seen",
        "rates",
        "reserve",
    )

    def __init__(self, limits: ConnectionLimits | None = None, rates: ConnectionRates | None = None) -> None:
        """`rates` limit how fast connections arrive; by default nothing does."""
        self._limits = limits if limits is not None else ConnectionLimits()
        self.rates = rates or ConnectionRates(Windows(), lambda: int(monotonic_s() * 1_000))
        self.reserve = ConnectionReserve()
        self._on_closed: Callable[[int], None] = lambda number: None
        self._count = 0
        self._seen = 0
        self._open: set[int] = set()  # connection numbers
        self._by_listener: dict[str, int] = {}
        self._by_address: dict[str, int] = {}

    def limit(self, limits: ConnectionLimits) -> None:
        """Replace the limits, for connections that arrive from now on."""
        self._limits = limits

    def on_close(self, listener: Callable[[int], None]) -> None:
        """Register the listener that is called with the number of each closed connection."""
        self._on_closed = listener

    def next_number(self) -> int:
        """Count a new connection as open, and return its number, which is unique among all listeners."""
        self._seen += 1
        self._open.add(self._seen)
        return self._seen

    def is_open(self, number: int) -> bool:
        """Return True if the connection with that number has not been closed."""
        return number in self._open

    def enter(self, listener: str, address: str) -> str:
        """Count a connection, which must `leave` in any case; return the exceeded limit as text, or ""."""
        limits = self._limits
        self._count += 1
        of_listener = self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
        of_address = self._by_address[address] = self._by_address.get(address, 0) + 1
        if self._count > limits.max_connections:
            return f"the limit max.connections={limits.max_connections} is reached"
        allowed = limits.listener_max_connections.get(listener, NO_LIMIT)
        if of_listener > allowed:
            return f"the limit listener.name.{listener.lower()}.max.connections={allowed} is reached"
        allowed = limits.max_connections_per_ip_overrides.get(address, limits.max_connections_per_ip)
        if of_address > allowed:
            return f"the limit max.connections.per.ip={allowed} of {address} is reached"
        return ""

    def leave(self, listener: str, address: str, number: int) -> None:
        """Stop counting a connection, since it is closed."""
        self._count -= 1
        self._open.discard(number)
        self._on_closed(number)
        for counts, name in ((self._by_listener, listener), (self._by_address, address)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
