"""Accepts connections on a listening socket: several in each turn of the loop.

libuv accepts one connection a turn for each handle of a socket. When turns take 5 ms, the last of a thousand
clients that connect at once would wait for 5 s. So the socket has several handles, which share its queue.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

import uvloop

ACCEPTS_PER_TURN: Final = 8


class Acceptor:
    """A listening socket that accepts connections after `bind` or `take` and `start`, until `close`."""

    def __init__(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._make_protocol = make_protocol
        self._servers: list[asyncio.Server] = []

    async def bind(self, host: str, port: int, backlog: int) -> socket.socket:
        """Bind an address and return its socket; from `start` on the kernel queues `backlog` connections."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._make_protocol, host, port, backlog=backlog, start_serving=False
        )
        return await self._share(server, backlog)

    async def take(self, sock: socket.socket, backlog: int) -> socket.socket:
        """Take over a bound socket and return it; the rest is as for `bind`."""
        server = await asyncio.get_running_loop().create_server(
            self._make_protocol, sock=sock, backlog=backlog, start_serving=False
        )
        return await self._share(server, backlog)

    async def _share(self, first: asyncio.Server, backlog: int) -> socket.socket:
        """Create the other handles of a socket."""
        self._servers.append(first)
        bound = first.sockets[0]
        if _is_of_libuv(loop := asyncio.get_running_loop()):
            for _ in range(ACCEPTS_PER_TURN - 1):
                handle = socket.socket(fileno=os.dup(bound.fileno()))
                server = await loop.create_server(
                    self._make_protocol, sock=handle, backlog=backlog, start_serving=False
                )
                self._servers.append(server)
        return bound

    async def start(self) -> None:
        """Accept connections."""
        for server in self._servers:
            await server.start_serving()

    def close(self) -> None:
        """Accept no more connections; those already accepted continue."""
        for server in self._servers:
            server.close()
        self._servers.clear()


def _is_of_libuv(loop: object) -> bool:
    """Return True for a loop of uvloop; asyncio's own accepts as many connections as there are."""
    return isinstance(loop, uvloop.Loop)
