"""The network among the nodes of an embedded cluster: what a node dials goes through it, and can be cut."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import uvloop


def call(loop: asyncio.AbstractEventLoop, action: Callable[..., object]) -> None:
    """Do it on a loop of another thread, if that still runs."""
    try:
        loop.call_soon_threadsafe(action)
    except RuntimeError:  # The loop is closed: nothing is left to be done to it.
        return


class Network:
    """Which nodes can reach which; the loops of all nodes ask it before they dial."""

    def __init__(self) -> None:
        self._owner_of_port: dict[int, int] = {}
        self._group_of: dict[int, int] = {}
        self._lock = threading.Lock()
        self._open: list[_Dialled] = []

    def assign(self, port: int, node_id: int) -> None:
        """This node listens there."""
        self._owner_of_port[port] = node_id

    def divide(self, groups: Iterable[Iterable[int]]) -> None:
        """Let nodes reach those of their own group only; nodes in none are each alone."""
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
        """Whether a node may open, or keep, a connection to a port."""
        groups, owner = self._group_of, self._owner_of_port.get(port)
        return owner is None or groups.get(node_id, 0) == groups.get(owner, 0)

    def note(self, dialled: "_Dialled") -> None:
        """A node has opened a connection; on its loop."""
        with self._lock:
            # A transport of TLS takes no weak reference, so those that have ended are looked for here.
            self._open = [one for one in self._open if not one.has_ended(dialled.loop)]
            self._open.append(dialled)


@dataclass(frozen=True, slots=True)
class _Dialled:
    node_id: int
    port: int
    loop: asyncio.AbstractEventLoop
    transport: asyncio.WriteTransport

    def has_ended(self, this_loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether the connection is known to have ended; only the own loop is asked."""
        if self.loop is not this_loop:
            return self.loop.is_closed()
        # One of TLS that was lost does not say that it is closing, but has no socket any more.
        return self.transport.is_closing() or self.transport.get_extra_info("socket") is None


class NodeLoop(uvloop.Loop):
    """The loop of a node; what it dials goes through the network of the cluster."""

    network: Network
    node_id: int

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **rest: Any
    ) -> Any:
        return await _dial(self, super().create_connection, factory, host, port, rest)


class VoterLoop(asyncio.SelectorEventLoop):
    """The same for the loop of its voter."""

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
    # It may have been cut while we dialled.
    if not loop.network.passes(loop.node_id, number):
        transport.abort()
    return transport, protocol
