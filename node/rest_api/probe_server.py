"""Probes at a port of their own (`ottla.probe.listener`), in a thread with its own loop.

Neither requests to the REST API nor work on the node's loop can delay an answer: the node's loop has written
the state into its pulse beforehand. A connection has one request, few bytes and little time. When all places
are taken, a new connection gets the place of the oldest one of the address with most connections: the new one
may be the kubelet's, and a client that opens many replaces its own.
"""

import asyncio
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

from ottla.node.net.connection_info import network_of
from ottla.node.node_view import NodeView
from ottla.node.rest_api.node_pulse import PERIOD_S, NodePulse
from ottla.node.rest_api.probe_answers import END_OF_HEAD, MAX_HEAD_BYTES, answer_of
from ottla.node.rest_api.read_status import state_of
from ottla.node.rest_api.server_thread import BACKLOG, RestPortError, bind_problem, bind_socket
from ottla.node.settings.rest_settings import PROBE_LISTENER, RestAddress
from ottla.node.work.pause import until_next

MAX_CONNECTIONS: Final = 64  # each an open file; a kubelet and some load balancers have a few at a time
TIME_LIMIT_S: Final = 5.0  # for a request to arrive and its answer to be read
STOP_TIMEOUT_S: Final = 2.0

log = logging.getLogger(__name__)


class ProbeServer:
    """The probes of one node. Without `ottla.probe.listener`, `bind`, `start` and `stop` do nothing."""

    def __init__(
        self, node: NodeView, pulse: NodePulse, loop_factory: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        self._node = node
        self._pulse = pulse
        self._loop_factory = loop_factory
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._beat_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._is_ended = False
        self._lock = threading.Lock()  # guards `_is_ended`: the server may end before its thread has started

    def bind(self) -> None:
        """Bind the address; RestPortError if that fails."""
        address = self._node.config.ottla_probe_listener
        if address is None:
            return
        try:
            self._socket = bind_socket(address)
        except OSError as error:
            raise RestPortError(
                error.errno, f"Cannot listen on {PROBE_LISTENER}={address.authority}: {bind_problem(error)}."
            ) from None

    @property
    def address(self) -> RestAddress | None:
        """Return the address with the port that was bound, or None without a listener."""
        return None if self._socket is None else RestAddress(*self._socket.getsockname()[:2])

    def start(self) -> None:
        """Start the thread, and return at once."""
        if self._socket is None or self._thread is not None:
            return
        self._beat()
        log.info("Probes are served at %s", RestAddress(*self._socket.getsockname()[:2]).authority)
        # A daemon thread, which does not delay the end of the process.
        self._thread = threading.Thread(target=self._run, args=(self._socket,), name="probes", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread and close the socket."""
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        with self._lock:
            self._is_ended = True
            if self._loop is not None and self._end is not None:
                self._loop.call_soon_threadsafe(self._end.set)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, STOP_TIMEOUT_S)
        self.close_socket()

    def close_socket(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _beat(self) -> None:
        """Write the pulse periodically on the node's loop."""
        self._beat_timer = asyncio.get_running_loop().call_later(until_next(PERIOD_S), self._beat)
        self._pulse.beat(time.monotonic(), state_of(self._node))

    # ---- in the thread ---------------------------------------------------------------------------

    def _run(self, listening: socket.socket) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._serve(listening))
        except BaseException:
            log.exception(
                "The probe server has stopped; the REST API still serves probes. Restart the "
                "node to get it back"
            )
        finally:
            with self._lock:
                self._loop = None

    async def _serve(self, listening: socket.socket) -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            if self._is_ended:
                return
            self._loop, self._end = loop, end
        places: dict[_ProbeConnection, None] = {}
        server = await loop.create_server(
            lambda: _ProbeConnection(loop, self._pulse, places), sock=listening.dup(), backlog=BACKLOG
        )
        try:
            await end.wait()
        finally:
            server.close()
            for one in list(places):
                one.cut_off()


class _ProbeConnection(asyncio.Protocol):
    """A connection with one request."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pulse: NodePulse, places: "dict[_ProbeConnection, None]"
    ) -> None:
        self._pulse = pulse
        self._places = places  # oldest first
        self._head = bytearray()
        self._is_answered = False
        self.network = ""
        self._socket: asyncio.Transport | None = None
        self._timer = loop.call_later(TIME_LIMIT_S, self.cut_off)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's transport has the methods, not the type
        peer = transport.get_extra_info("peername")
        self.network = network_of(peer[0]) if peer else ""
        self._places[self] = None
        if len(self._places) > MAX_CONNECTIONS:
            [(crowded, _)] = Counter(one.network for one in self._places).most_common(1)
            oldest = next(one for one in self._places if one.network == crowded)
            # Not left to `connection_lost`: others may come before it, and each would close another
            # connection.
            del self._places[oldest]
            oldest.cut_off()

    def data_received(self, data: bytes) -> None:
        if self._is_answered or self._socket is None:
            return
        self._head += data[: MAX_HEAD_BYTES + 1]
        if END_OF_HEAD in self._head or len(self._head) > MAX_HEAD_BYTES:
            self._is_answered = True
            head = bytes(self._head).partition(END_OF_HEAD)[0]
            self._socket.write(answer_of(head, self._pulse, time.monotonic()))
            self._socket.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._timer.cancel()
        self._places.pop(self, None)

    def cut_off(self) -> None:
        """Close the connection at once; bytes not yet sent are lost."""
        if self._socket is not None:
            self._socket.abort()
