"""The network between the nodes of an embedded cluster; each connection between them can be cut."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import uvloop


def call(loop: asyncio.AbstractEventLoop, action: Callable[..., object]) -> None:
    """Run `action` on a loop of another thread, if that is still running."""
    try:
        loop.call_soon_threadsafe(action)
    except RuntimeError:  # the loop is closed: nothing is left to do
        return


class Network:
    """The connections that are allowed between nodes; the loops of all nodes check it when they dial."""

    def __init__(self) -> None:
        self._owner_of_port: dict[int, int] = {}
        self._group_of: dict[int, int] = {}
        self._lock = threading.Lock()
        self._open: list[_Dialled] = []

    def assign(self, port: int, node_id: int) -> None:
        """Note that this node listens on a port."""
        self._owner_of_port[port] = node_id

    def divide(self, groups: Iterable[Iterable[int]]) -> None:
        """Let nodes reach only nodes of their own group; a node in no group is alone."""
        everyone = set(self._owner_of_port.values())
        with self._lock:
            self._group_of = {node_id: -1 - node_id for node_id in everyone}
            for number, group in enumerate(groups):
                self._group_of.update(dict.fromkeys(group, number))
            cut = [one for one in self._open if not self.passes(one.node_id, one.port)]
        for dialled in cut:
            call(dialled.loop, dialled.transport.abort)

    def heal(self) -> None:
        """Let all nodes reach each other."""
        self._group_of = {}

    def passes(self, node_id: int, port: int) -> bool:
        """Return True if a node may open, or keep, a connection to a port."""
        groups, owner = self._group_of, self._owner_of_port.get(port)
        return owner is None or groups.get(node_id, 0) == groups.get(owner, 0)

    def note(self, dialled: "_Dialled") -> None:
        """Note a connection that a node has opened; called on the node's loop."""
        with self._lock:
            # A TLS transport supports no weak reference, so ended connections are removed here.
            self._open = [one for one in self._open if not one.has_ended(dialled.loop)]
            self._open.append(dialled)


@dataclass(frozen=True, slots=True)
class _Dialled:
    node_id: int
    port: int
    loop: asyncio.AbstractEventLoop
    transport: asyncio.WriteTransport

    def has_ended(self, this_loop: asyncio.AbstractEventLoop) -> bool:
        """Return True if the connection is known to have ended; only its own loop can tell."""
        if self.loop is not this_loop:
            return self.loop.is_closed()
        # A lost TLS transport does not report that it is closing, but it has no socket any more.
        return self.transport.is_closing() or self.transport.get_extra_info("socket") is None


class NodeLoop(uvloop.Loop):
    """The event loop of a node; its connections go through the cluster's network."""

    network: Network
    node_id: int

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **rest: Any
    ) -> Any:
        return await _dial(self, super().create_connection, factory, host, port, rest)


class VoterLoop(asyncio.SelectorEventLoop):
    """The event loop of a node's voter; its connections go through the cluster's network."""

    network: Network
    node_id: int

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **rest: Any
    ) -> Any:
        return await _dial(self, super().create_connection, factory, host, port, rest)


async def _dial(
    loop: "NodeLoop | VoterLoop", connect: Any, factory: Any, host: Any, port: Any, rest: dict[str, Any]
) -> Any:
    number = int(port) if port is not None else 0
    if not loop.network.passes(loop.node_id, number):
        raise ConnectionRefusedError(f"the network between node {loop.node_id} and port {port} is cut")
    transport, protocol = await connect(factory, host, port, **rest)
    loop.network.note(_Dialled(loop.node_id, number, loop, transport))
    # The network may have been cut during the dial.
    if not loop.network.passes(loop.node_id, number):
        transport.abort()
    return transport, protocol
