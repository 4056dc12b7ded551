"""Accepted connections that are not let in yet, because they arrive faster than a quota allows.

Only a first small piece is read from them. Connections beyond the rate of the node or of their listener are
let in one by one. Addresses (for IPv6, /64 networks) take turns, so that no client delays others by opening
many. Connections beyond the rate of their address are closed when their throttle time is over, as in Apache
Kafka: a client that was closed at once would reconnect at once.
"""

import asyncio
from collections import deque
from typing import Final, Protocol, cast

from ottla.node.net.connection_info import network_of, plain_address
from ottla.node.quota.connection_rates import ConnectionRates

# Of one listener, the waiting and the throttled connections: each takes an open file and some kB.
MAX_WAITING: Final = 1_000
MAX_THROTTLED: Final = 1_000
MAX_EARLY_BYTES: Final = 4_096  # of a client that sends before it is let in: uvloop reads once
NOTHING: Final = memoryview(b"")


class ListenerPart(Protocol):
    """The part of the listener that arrivals need."""

    name: str
    loop: asyncio.AbstractEventLoop
    file_limit: int

    @property
    def is_protected(self) -> bool: ...
    def make_protocol(self) -> asyncio.BufferedProtocol: ...


def give_to(protocol: asyncio.BufferedProtocol, transport: asyncio.Transport, early: memoryview) -> None:
    """Switch a connection to another protocol, which first receives the bytes that the client sent early.

    The protocol may close the connection before it has received all of them.
    """
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if transport.is_closing():
        return
    transport.resume_reading()
    while early and not transport.is_closing():
        room = memoryview(protocol.get_buffer(len(early)))
        piece = early[: len(room)]
        room[: len(piece)] = piece
        early = early[len(piece) :]
        protocol.buffer_updated(len(piece))


class Arrivals:
    """The connections of one listener that are not let in yet."""

    def __init__(self, listener: ListenerPart, rates: ConnectionRates) -> None:
        self._listener = listener
        self._rates = rates
        self._waiting: dict[str, deque[Arrival]] = {}  # by network, in the order of their turns
        self._next: Arrival | None = None  # already counted by the rates, and waiting for its time
        self._held: set[Arrival] = set()  # all waiting connections, the next one included
        self._throttled: set[Arrival] = set()

    def __len__(self) -> int:
        return len(self._held) + len(self._throttled)

    def new(self) -> "Arrival":
        """Return the protocol of a newly accepted socket."""
        return Arrival(self)

    def take(self, transport: asyncio.Transport, early: memoryview) -> None:
        """Hold a connection of which some bytes were received, or let it in at once."""
        arrival = Arrival(self, early)
        transport.set_protocol(arrival)
        arrival.connection_made(transport)

    def arrived(self, arrival: "Arrival") -> None:
        """Hold a connection, let it in at once, or abort it if too many wait."""
        listener = self._listener
        sock = arrival.transport.get_extra_info("socket")
        is_too_much = sock is not None and sock.fileno() >= listener.file_limit
        throttle_ms = 0 if is_too_much else self._rates.enter_address(listener.name, arrival.address)
        if is_too_much or (throttle_ms and len(self._throttled) >= MAX_THROTTLED):
            arrival.transport.abort()
            return
        if throttle_ms:
            self._throttled.add(arrival)
            listener.loop.call_later(throttle_ms / 1_000, arrival.transport.abort)
            return
        if len(self._held) >= MAX_WAITING and not self._make_room(arrival.network):
            arrival.transport.abort()
            return
        self._held.add(arrival)
        self._waiting.setdefault(arrival.network, deque()).append(arrival)
        self._go_on()

    def left(self, arrival: "Arrival") -> None:
        """Forget a connection that ended before it was let in."""
        self._held.discard(arrival)
        self._throttled.discard(arrival)
        of_network = self._waiting.get(arrival.network)
        if of_network is not None and arrival in of_network:
            of_network.remove(arrival)
            if not of_network:
                del self._waiting[arrival.network]

    def close(self) -> None:
        """Abort all waiting connections and let in no more."""
        for arrival in (*self._held, *self._throttled):
            arrival.transport.abort()
        self._held.clear()
        self._waiting.clear()

    def _go_on(self) -> None:
        """Let in the connections that the rates allow; the first that must wait holds up all behind it."""
        while self._next is None and self._waiting:
            network = next(iter(self._waiting))
            of_network = self._waiting.pop(network)
            arrival = of_network.popleft()
            if of_network:
                self._waiting[network] = of_network
            wait_ms = self._rates.enter(self._listener.name, is_protected=self._listener.is_protected)
            if not wait_ms:
                self._admit(arrival)
                continue
            self._next = arrival
            self._listener.loop.call_later(wait_ms / 1_000, self._admit_next)

    def _admit_next(self) -> None:
        arrival, self._next = self._next, None
        if arrival is not None and arrival in self._held:
            self._admit(arrival)
        self._go_on()

    def _admit(self, arrival: "Arrival") -> None:
        self._held.discard(arrival)
        transport = arrival.transport
        if transport.is_closing():
            return
        give_to(self._listener.make_protocol(), transport, arrival.early)

    def _make_room(self, network: str) -> bool:
        """Abort the newest connection of the network that has most; return True if there is room now.

        It aborts none if the arriving network would then have as many as any other.
        """
        most = max(self._waiting, key=lambda one: len(self._waiting[one]), default=network)
        if len(self._waiting.get(network, ())) + 1 >= len(self._waiting.get(most, ())):
            return False
        newest = self._waiting[most].pop()
        self._held.discard(newest)
        newest.transport.abort()
        return True


class Arrival(asyncio.BufferedProtocol):
    """The protocol of a connection that is not let in yet (asyncio demands the base class)."""

    __slots__ = ("_arrivals", "_buffer", "_length", "address", "network", "transport")

    def __init__(self, arrivals: Arrivals, early: memoryview = NOTHING) -> None:
        self._arrivals = arrivals
        self._buffer = bytearray(early) + bytes(MAX_EARLY_BYTES) if early else bytearray()
        self._length = len(early)
        self.address = ""
        self.network = ""  # `network_of` the address
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)  # set by connection_made

    @property
    def early(self) -> memoryview:
        """Return the bytes that the client has sent so far."""
        return memoryview(self._buffer)[: self._length]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.address = plain_address((transport.get_extra_info("peername") or ("", 0))[0])
        self.network = network_of(self.address)
        self.transport.pause_reading()
        self._arrivals.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrivals.left(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._buffer:
            self._buffer = bytearray(MAX_EARLY_BYTES)
        return memoryview(self._buffer)[self._length :]

    def buffer_updated(self, nbytes: int) -> None:
        self._length += nbytes
        self.transport.pause_reading()  # uvloop starts reading even though reading was paused before

    def eof_received(self) -> bool:
        return False
