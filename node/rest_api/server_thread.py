"""The sockets of the REST API, and the thread whose loop it runs on.

The sockets are bound together with those for Kafka clients, so that a port in use is found early; connections
that arrive before the API is up wait in the kernel's queue. No part of the API runs on the node's loop, and
its modules are imported in the thread, so they do not delay the start of the node.
"""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import uvloop

from ottla.node.counters.rest_work import RestWork
from ottla.node.memory.memory_budget import MemoryBudget
from ottla.node.memory.memory_uses import MemoryUses
from ottla.node.node_facts import NodeFacts
from ottla.node.node_view import NodeView
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.rest_settings import REST_LISTENERS, RestAddress

if TYPE_CHECKING:
    from ottla.node.rest_api.http_server import HttpServer

BACKLOG: Final = 128  # until the API is up
STOP_TIMEOUT_S: Final = 5.0

log = logging.getLogger(__name__)


class RestPortError(OSError):
    """An address of `ottla.rest.listeners` or `ottla.probe.listener` cannot be bound."""

    def __str__(self) -> str:
        return str(self.strerror)


def bind_problem(error: OSError) -> str:
    """Return why an address cannot be bound, and how to fix that."""
    if error.errno == errno.EADDRINUSE:
        return "another process uses that port; choose another port there"
    if error.errno == errno.EACCES:
        return "no permission for that port; choose one above 1023"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address; use one of its own"
    return str(error.strerror)


class RestServer:
    """The REST API of one node; `bind`, `start` and `stop` it."""

    def __init__(
        self,
        node: NodeView,
        memory: MemoryBudget,
        uses: MemoryUses,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    ) -> None:
        self._node = node
        self._memory = memory
        uses.count_by("rest_bodies", lambda: self.body_bytes, lambda: memory.rest_bodies)
        uses.count_by("rest_answers", lambda: self.answer_bytes, lambda: memory.rest_answers)
        self._loop_factory = loop_factory
        self._sockets: list[tuple[socket.socket, bool]] = []  # with True for those with TLS
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._server: HttpServer | None = None
        self._is_ended = False
        self._lock = threading.Lock()  # guards `_is_ended`: the server may end before its thread has started

    def bind(self) -> None:
        """Bind the addresses of `ottla.rest.listeners`.

        RestPortError if a configured one cannot be bound. Without the default one, the node runs without a
        REST API.
        """
        config = self._node.config
        for address in config.ottla_rest_listeners:
            try:
                self._sockets.append((bind_socket(address), address.is_secure))
            except OSError as error:
                self.close_sockets()
                place, reason = f"{REST_LISTENERS}={address.url}", bind_problem(error)
                if config.rest_listeners_are_named:
                    raise RestPortError(error.errno, f"Cannot listen on {place}: {reason}.") from None
                log.warning("Cannot listen on %s, so this node runs without a REST API: %s.", place, reason)
                return

    @property
    def addresses(self) -> list[RestAddress]:
        """Return the addresses with the ports that were bound; empty if the API is off."""
        found = ((*one.getsockname()[:2], is_secure) for one, is_secure in self._sockets)
        return [RestAddress(host, port, is_secure) for host, port, is_secure in found]

    @property
    def body_bytes(self) -> int:
        """Return the memory held by request bodies."""
        return 0 if self._server is None else self._server.bodies.held_bytes

    @property
    def answer_bytes(self) -> int:
        """Return the memory held by long answers."""
        return 0 if self._server is None else self._server.answers.held_bytes

    @property
    def readings(self) -> list[RestWork]:
        """Return the amount of each kind of work; may be called in any thread."""
        return [] if self._server is None else self._server.readings

    def start(self) -> None:
        """Start the thread, on the node's loop, and return at once; does nothing if off or started."""
        if self._sockets and self._thread is None:
            facts = NodeFacts(self._node, asyncio.get_running_loop(), lambda: self.readings)
            # A daemon thread, so that the process can end while browsers are connected.
            self._thread = threading.Thread(
                target=self._run, args=(facts, self._node.config), name="rest-api", daemon=True
            )
            self._thread.start()

    async def stop(self) -> None:
        """End the thread and close its sockets."""
        with self._lock:
            self._is_ended = True
            if self._loop is not None and self._end is not None:
                self._loop.call_soon_threadsafe(self._end.set)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, STOP_TIMEOUT_S)
        self.close_sockets()

    def close_sockets(self) -> None:
        """Close the sockets."""
        while self._sockets:
            self._sockets.pop()[0].close()

    # ---- in the thread ---------------------------------------------------------------------------

    def _run(self, facts: NodeFacts, config: BrokerConfig) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._serve(facts, config, list(self._sockets)))
        except BaseException:  # a failed task group cancels the task that runs it
            log.exception(
                "The REST API has stopped, and with it metrics and probes. Clients of the Kafka "
                "protocol are still served; restart the node to get the REST API back"
            )
            self.close_sockets()
        finally:
            with self._lock:
                self._loop = None

    async def _serve(
        self, facts: NodeFacts, config: BrokerConfig, sockets: Sequence[tuple[socket.socket, bool]]
    ) -> None:
        end = asyncio.Event()
        with self._lock:
            if self._is_ended:
                return
            self._loop, self._end = asyncio.get_running_loop(), end
        from ottla.node.rest_api.all_routes import ALL_ROUTES
        from ottla.node.rest_api.http_server import HttpServer

        # Duplicates: when the server closes them, the node can still report its addresses.
        server = HttpServer(ALL_ROUTES, facts, config, self._memory)
        self._server = server
        await server.run([(one.dup(), is_secure) for one, is_secure in sockets], end)


def bind_socket(address: RestAddress) -> socket.socket:
    """Return a listening socket; an empty host stands for all addresses of the machine."""
    if not address.host and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
        )
    found = socket.getaddrinfo(
        address.host or "0.0.0.0", address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, _, _, _, where = found[0]
    return socket.create_server(where, family=family, backlog=BACKLOG)
