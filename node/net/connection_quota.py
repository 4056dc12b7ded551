"""How many connections a node lets in over all its listeners: in all, by listener and by address; and their
numbers.

The limits may change while the node runs. A lower one holds for new connections; those that are there stay,
as in Apache Kafka.
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
    """Names and defaults are Kafka's; listeners stand in capitals, addresses as the socket tells them."""

    max_connections: int = NO_LIMIT
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)
    max_connections_per_ip: int = NO_LIMIT
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)


class ConnectionQuota:
    """Counts the open connections of a node against limits, which may be others at any time."""

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
        """`rates` limit how fast connections come; by default nothing does."""
        self._limits = limits if limits is not None else ConnectionLimits()
        self.rates = rates or ConnectionRates(Windows(), lambda: int(monotonic_s() * 1_000))
        self.reserve = ConnectionReserve()
        self._on_closed: Callable[[int], None] = lambda number: None
        self._count = 0
        self._seen = 0
        self._open: set[int] = set()  # numbers
        self._by_listener: dict[str, int] = {}
        self._by_address: dict[str, int] = {}

    def limit(self, limits: ConnectionLimits) -> None:
        """Have these limits hold for the connections that come from now on."""
        self._limits = limits

    def tell_closed(self, listener: Callable[[int], None]) -> None:
        """Have one listener told the number of each connection that is closed."""
        self._on_closed = listener

    def next_number(self) -> int:
        """The number of a connection that came in just now, through whichever listener."""
        self._seen += 1
        self._open.add(self._seen)
        return self._seen

    def is_open(self, number: int) -> bool:
        """Return whether the connection with that number is open."""
        return number in self._open

    def enter(self, listener: str, address: str) -> str:
        """Count a connection, which must `leave` in any case; a text that says why it is one too many, or
        "".
        """
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
        """A connection that had entered is closed."""
        self._count -= 1
        self._open.discard(number)
        self._on_closed(number)
        for counts, name in ((self._by_listener, listener), (self._by_address, address)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
