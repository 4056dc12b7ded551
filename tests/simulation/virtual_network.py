"""TCP between simulated hosts: a connection delivers bytes in order and completely, and nothing else.

A link goes from one host to another and can be slow or cut in that direction alone. Bytes that are sent over
a cut link are not lost, as TCP sends them again: they arrive when the link is healed, if the connection still
exists. A peer that does not read fills its receive window, then the sender's buffer, and the sender's
protocol is paused. When a process dies, its kernel closes its connections; when a host dies, a peer notices
only when it sends something after the host is back.
"""

import asyncio
import errno
import os
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.virtual_loop import PROCESS, Process, VirtualLoop

WINDOW_BYTES: Final = 256 * 1024  # that a kernel receives before the program has read them
HIGH_WATER_BYTES: Final = 64 * 1024  # asyncio's default for a transport
SYN_RETRY_S: Final = 1.0
CONNECT_TIMEOUT_S: Final = 127.0  # Linux with tcp_syn_retries = 6
FIRST_EPHEMERAL_PORT: Final = 32_768
SPLIT_CHANCE: Final = 0.02  # that a read returns less than there is
END: Final = b""  # of the stream, in place of bytes


class _Reset:
    """A reset of the connection, in place of bytes."""


RESET: Final = _Reset()


@dataclass(slots=True, eq=False)
class Host:
    """A machine with one address, on which processes start and end."""

    name: str
    address: str
    is_up: bool = True
    servers: "dict[int, Server]" = field(default_factory=dict)
    next_port: int = FIRST_EPHEMERAL_PORT


@dataclass(slots=True, eq=False)
class Link:
    """The path from one host to another, in one direction."""

    latency_s: float
    jitter_s: float
    is_cut: bool = False
    cut_at_s: float = 0.0
    stalled: "list[Socket]" = field(default_factory=list)  # with bytes due at the target host, in order


class Network:
    """All hosts and links; `trace` is called for each arrival."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.hosts: dict[str, Host] = {}
        self.links: dict[tuple[Host, Host], Link] = {}
        self.trace: Callable[[str, str], None] = lambda kind, detail: None
        self.host_of: Callable[[Process], Host] = lambda process: self.hosts[process.name]
        self._empty = Context()
        loop.network = self

    def add_host(self, name: str) -> Host:
        host = self.hosts[name] = Host(name, f"10.0.0.{len(self.hosts) + 1}")
        return host

    def link(self, source: Host, target: Host) -> Link:
        found = self.links.get((source, target))
        if found is None:
            chance = self.chance
            latency_s = 0.00002 if source is target else 0.0001 + 0.0009 * chance.random() ** 2
            found = self.links[source, target] = Link(latency_s, latency_s * chance.choice((0.2, 1.0, 4.0)))
        return found

    def delay_s(self, link: Link) -> float:
        return link.latency_s + link.jitter_s * self.chance.random() ** 4

    # ---- faults ------------------------------------------------------------------------------------

    def cut(self, source: Host, target: Host) -> None:
        link = self.link(source, target)
        if not link.is_cut:
            link.is_cut, link.cut_at_s = True, self.loop.now_s

    def heal(self, source: Host, target: Host) -> None:
        """Heal a link; what waited arrives with TCP's next retry: the longer the cut, the later."""
        link = self.link(source, target)
        link.is_cut = False
        stalled, link.stalled = link.stalled, []
        back_off_s = min(1.0, self.loop.now_s - link.cut_at_s)
        for socket in stalled:
            self._later(self.chance.random() * back_off_s, socket._arrive)

    def isolate(self, host: Host, others: Iterable[Host]) -> None:
        """Cut the links between a host and others, in both directions."""
        for other in others:
            self.cut(host, other)
            self.cut(other, host)

    def rejoin(self, host: Host, others: Iterable[Host]) -> None:
        """Heal the links between a host and others, in both directions."""
        for other in others:
            self.heal(host, other)
            self.heal(other, host)

    def host_returns(self, host: Host) -> None:
        """Bring a host back; TCP sends the backlog again, which the host rejects by a reset."""
        host.is_up = True
        for (_, target), link in self.links.items():
            if target is host and not link.is_cut:
                stalled, link.stalled = link.stalled, []
                for socket in stalled:
                    self._later(self.chance.random() * 0.3, socket._arrive)

    def end_process(self, process: Process, *, is_silent: bool) -> None:
        """Close all sockets as the kernel does when a process dies; silently if the host has no power."""
        host = self.host_of(process)
        for port, server in list(host.servers.items()):
            if server.process is process:
                del host.servers[port]
        for socket in list(process.sockets):
            socket.die(is_silent=is_silent)

    def reset(self, socket: "Socket") -> None:
        """Reset a connection at both ends, as a device between the hosts may."""
        for end in (socket, socket.peer):
            if end is not None:
                end._arrived(RESET)

    def _later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> None:
        self.loop.call_later(delay_s, callback, *args, context=self._empty)

    # ---- called by the loop ------------------------------------------------------------------------

    def _own_host(self) -> Host:
        process = PROCESS.get()
        assert process is not None, "sockets belong to processes"
        return self.host_of(process)

    def resolve(self, name: str | None) -> Host:
        if not name or name in ("0.0.0.0", "::"):
            return self._own_host()
        for host in self.hosts.values():
            if name in (host.name, host.address):
                return host
        raise OSError(-2, f"Name or service not known: {name}")

    async def getaddrinfo(self, host: str | None, port: Any) -> list[Any]:
        await asyncio.sleep(0)
        return [(2, 1, 6, "", (self.resolve(host).address, int(port or 0)))]

    async def create_server(
        self,
        factory: Callable[[], Any],
        host: str | None,
        port: int,
        *,
        start_serving: bool = True,
        ssl: Any = None,
        **_: Any,
    ) -> "Server":
        assert ssl is None, "TLS is not simulated"
        own, process = self._own_host(), PROCESS.get()
        if host:
            assert self.resolve(host) is own, f"{host} is not an address of {own.name}"
        if not port:
            port, own.next_port = own.next_port, own.next_port + 1
        if port in own.servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = own.servers[port] = Server(own, port, factory, process, copy_context())
        server._is_serving = start_serving
        return server

    async def create_connection(
        self, factory: Callable[[], Any], host: str | None, port: int, *, ssl: Any = None, **_: Any
    ) -> tuple["Socket", Any]:
        assert ssl is None, "TLS is not simulated"
        own, target, loop = self._own_host(), self.resolve(host), self.loop
        process = PROCESS.get()
        own.next_port += 1
        local = (own.address, own.next_port)
        connected: asyncio.Future[Socket | None] = loop.create_future()
        # The kernel repeats the SYN until it is answered, also if the caller has given up.
        self._syn(own, target, int(port), local, connected, loop.now_s + CONNECT_TIMEOUT_S)
        far = await connected
        if far is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {target.address}:{port}")
        near = Socket(self, own, process, copy_context(), local, (target.address, int(port)))
        near.peer, far.peer = far, near
        near.remote_host = target
        protocol = factory()
        near.protocol = protocol
        near._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        if far.is_over:
            near._arrived(END if far.ended_well else RESET)
        protocol.connection_made(near)
        far.accept_soon()
        return near, protocol

    def _syn(
        self, own: Host, target: Host, port: int, local: tuple[str, int], connected: Any, deadline_s: float
    ) -> None:
        if connected.done():
            return
        if self.loop.now_s > deadline_s:
            connected.set_exception(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))
            return
        self._later(
            self.delay_s(self.link(own, target)), self._syn_arrives, own, target, port, local, connected
        )
        self._later(SYN_RETRY_S, self._syn, own, target, port, local, connected, deadline_s)

    def _syn_arrives(
        self, own: Host, target: Host, port: int, local: tuple[str, int], connected: Any
    ) -> None:
        back = self.link(target, own)
        if self.link(own, target).is_cut or not target.is_up or connected.done() or back.is_cut:
            return
        server = target.servers.get(port)
        if server is None or not server._is_serving:
            self._later(self.delay_s(back), _settle, connected, None)
            return
        far = Socket(self, target, server.process, server._context.copy(), (target.address, port), local)
        far.remote_host = own
        far.factory = server._factory
        self._later(self.delay_s(back), self._syn_answered, far, connected)

    def _syn_answered(self, far: "Socket", connected: Any) -> None:
        """Complete the client's connection; the server's program accepts it later."""
        if connected.done():
            return
        if far.process is not None and far.process.is_dead:
            connected.set_result(None)
            return
        connected.set_result(far)


def _settle(future: Any, result: Any) -> None:
    if not future.done():
        future.set_result(result)


@dataclass(frozen=True, slots=True)
class _ListeningSocket:
    """A stand-in for a listening socket that answers `getsockname` and `getsockopt`."""

    address: tuple[str, int]

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def getsockopt(self, level: int, name: int, size: int) -> bytes:
        return b"cubic".ljust(size, b"\0")


class Server:
    """A listening socket, as `create_server` returns it."""

    def __init__(
        self, host: Host, port: int, factory: Callable[[], Any], process: Process | None, context: Context
    ) -> None:
        self.process = process
        self._host, self._port, self._factory, self._context = host, port, factory, context
        self._is_serving = False
        self.sockets = [_ListeningSocket((host.address, port))]

    def is_serving(self) -> bool:
        return self._is_serving

    async def start_serving(self) -> None:
        self._is_serving = True

    def close(self) -> None:
        self._is_serving = False
        if self._host.servers.get(self._port) is self:
            del self._host.servers[self._port]

    async def wait_closed(self) -> None:
        pass

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Socket(asyncio.Transport):
    """One end of a connection: the transport of a protocol, with the buffers of its kernel."""

    def __init__(
        self,
        network: Network,
        host: Host,
        process: Process | None,
        context: Context,
        local: tuple[str, int],
        remote: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.network = network
        self.host = host
        self.process = process
        self.peer: Socket | None = None
        self.remote_host: Host = host
        self.factory: Callable[[], Any] | None = None  # None once the program has accepted
        self.protocol: Any = None
        self.is_over = False  # nothing is read or written here any more
        self.ended_well = True
        self._context = context
        self._is_buffered = False
        self._is_reading = True
        self._is_closing = False
        self._has_reported_end = False
        self._outgoing: deque[bytes] = deque()  # in the program
        self._outgoing_bytes = 0
        self._unread_bytes = 0  # of this end's bytes, on the way and in the peer's kernel
        self._on_wire: deque[tuple[float, bytes | _Reset]] = deque()  # to this end, with the time of arrival
        self._last_arrival_s = 0.0
        self._incoming: deque[bytes | _Reset] = deque()  # in the kernel
        self._is_delivering = False
        self._wants_end = False  # write_eof or close was called: the end follows the last byte
        self._has_sent_end = False
        self._high_bytes, self._low_bytes = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._is_blocked = False
        if process is not None:
            process.sockets[self] = None

    # ---- wire --------------------------------------------------------------------------------------

    def accept_soon(self) -> None:
        """Let the server's program accept the connection at its next turn."""
        if self.factory is not None:
            self._soon(self._accept)

    def _accept(self) -> None:
        assert self.factory is not None
        self.protocol, self.factory = self.factory(), None
        self._is_buffered = isinstance(self.protocol, asyncio.BufferedProtocol)
        self.protocol.connection_made(self)
        self._deliver_soon()

    def _send(self, item: bytes | _Reset) -> None:
        """Put an item on the wire to the peer."""
        peer = self.peer
        if peer is None:
            return
        network = self.network
        arrival_s = network.loop.now_s + network.delay_s(network.link(self.host, peer.host))
        peer._last_arrival_s = arrival_s = max(arrival_s, peer._last_arrival_s)
        peer._on_wire.append((arrival_s, item))
        network._later(arrival_s - network.loop.now_s, peer._arrive)

    def _arrive(self) -> None:
        """Take the items that are due from the wire, unless the link is cut."""
        network = self.network
        link = network.link(self.remote_host, self.host)
        while self._on_wire and self._on_wire[0][0] <= network.loop.now_s + 1e-9:
            if link.is_cut or not self.host.is_up:
                link.stalled.append(self)
                return
            self._arrived(self._on_wire.popleft()[1])

    def _arrived(self, item: bytes | _Reset) -> None:
        if self.is_over or (self.process is not None and self.process.is_dead):
            if item is not RESET and item != END and self.peer is not None:
                self._send(RESET)  # the process has closed this end
            return
        network = self.network
        network.trace("arrive", f"{self.remote_host.name}>{self.host.name} {_size(item)}")
        if item is RESET:
            self._incoming.clear()
        self._incoming.append(item)
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if self._is_delivering or not self._incoming or self.protocol is None:
            return
        if self._is_reading or self._incoming[0] is RESET:
            self._is_delivering = True
            self._soon(self._deliver)

    def _soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.network.loop.call_soon(callback, *args, context=self._context)

    def _deliver(self) -> None:
        """Let the program read once."""
        self._is_delivering = False
        if self.is_over or not self._incoming or not (self._is_reading or self._incoming[0] is RESET):
            return
        item = self._incoming.popleft()
        if item is RESET:
            self._finish(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
            return
        assert isinstance(item, bytes)
        if item == END:
            if not self.protocol.eof_received():
                self.close()
            return
        chance = self.network.chance
        if len(item) > 1 and chance.random() < SPLIT_CHANCE:
            cut = chance.randrange(1, len(item))
            self._incoming.appendleft(item[cut:])
            item = item[:cut]
        if self._is_buffered:
            target = self.protocol.get_buffer(-1)
            count = min(len(target), len(item))
            target[:count] = item[:count]
            if count < len(item):
                self._incoming.appendleft(item[count:])
            self._acknowledge(count)
            self.protocol.buffer_updated(count)
        else:
            self._acknowledge(len(item))
            self.protocol.data_received(item)
        self._deliver_soon()

    def _acknowledge(self, count: int) -> None:
        """Open the window of the peer by the bytes that the program has read."""
        peer = self.peer
        if peer is not None:
            peer._unread_bytes -= count
            if peer._outgoing:
                peer._pump()

    def _pump(self) -> None:
        """Move bytes from the program's buffer to the wire, as far as the peer's window allows."""
        while self._outgoing:
            room = WINDOW_BYTES - self._unread_bytes
            if room <= 0:
                break
            chunk = self._outgoing.popleft()
            if len(chunk) > room:
                self._outgoing.appendleft(chunk[room:])
                chunk = chunk[:room]
            self._outgoing_bytes -= len(chunk)
            self._unread_bytes += len(chunk)
            self._send(chunk)
        if self._is_blocked and self._outgoing_bytes <= self._low_bytes:
            self._is_blocked = False
            self._soon(self._resume_writing)
        if self._wants_end and not self._outgoing and not self._has_sent_end:
            self._has_sent_end = True
            self._send(END)
            if self._is_closing:
                self._soon(self._finish, None)

    def _resume_writing(self) -> None:
        if not self.is_over:
            self.protocol.resume_writing()

    def _finish(self, error: Exception | None) -> None:
        """Call `connection_lost` of the protocol, once."""
        if self._has_reported_end:
            return
        self._has_reported_end = True
        self.is_over = True
        self.ended_well = error is None
        self._forget()
        if self._incoming and error is None and self.peer is not None:
            self._send(RESET)  # as a kernel does if received bytes were never read
        self._incoming.clear()
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self.protocol.connection_lost(error)

    def _forget(self) -> None:
        if self.process is not None:
            self.process.sockets.pop(self, None)

    def die(self, *, is_silent: bool) -> None:
        """Close this end, as its process has died."""
        if not self.is_over:
            self.is_over = True
            if not is_silent and not self._has_sent_end:
                self._send(RESET if self._incoming else END)
        self._forget()

    # ---- methods that a protocol calls ---------------------------------------------------------------

    def _is_alive(self) -> bool:
        return not self.is_over and not (self.process is not None and self.process.is_dead)

    def write(self, data: Any) -> None:
        if not self._is_alive() or self._is_closing or not data:
            return
        self._outgoing.append(bytes(data))
        self._outgoing_bytes += len(data)
        self._pump()
        self._block_if_full()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _block_if_full(self) -> None:
        if not self._is_blocked and self._outgoing_bytes > self._high_bytes:
            self._is_blocked = True
            self.protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_alive() and not self._wants_end:
            self._wants_end = True
            self._pump()

    def close(self) -> None:
        if self._is_closing or not self._is_alive():
            return
        self._is_closing = self._wants_end = True
        self._is_reading = False
        if self._has_sent_end:
            self._soon(self._finish, None)
        self._pump()

    def abort(self) -> None:
        if not self._is_alive() or self._has_reported_end:
            return
        self._is_closing = True
        self._is_reading = False
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._incoming.clear()
        self._send(RESET)
        self._has_sent_end = True
        self._soon(self._finish, None)

    def is_closing(self) -> bool:
        return self._is_closing or self.is_over

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._is_reading = True
            self._deliver_soon()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = HIGH_WATER_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._outgoing_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._deliver_soon()

    def get_protocol(self) -> Any:
        return self.protocol


class DetachedSocket:
    """An accepted connection without a transport, as the program of one listener gives it to another."""

    def __init__(self, end: Socket) -> None:
        self._end = end

    def connect(self, factory: Callable[[], Any]) -> tuple[Socket, Any]:
        """Give the connection to another protocol, in the context of the caller."""
        end, protocol = self._end, factory()
        end._context = copy_context()
        end.set_protocol(protocol)
        protocol.connection_made(end)
        if end.is_over:  # it ended meanwhile, and only the protocol before has seen that
            end._soon(protocol.connection_lost, None)
        else:
            end.resume_reading()
        return end, protocol

    def close(self) -> None:
        self._end.abort()


def _size(item: bytes | _Reset) -> str:
    if isinstance(item, _Reset):
        return "reset"
    return f"{len(item)} bytes" if item else "end"
