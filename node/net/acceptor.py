"""Accepts connections on a listening socket: several in each turn of the loop.

libuv accepts one connection a turn for each handle of a socket. While turns take 5 ms, the last of a thousand
clients that connect at once would wait for 5 s. So the socket has several handles, which share its queue.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

ACCEPTS_A_TURN: Final = 8


class Acceptor:
    """One bound socket; `open`, `start`, `close`."""

    def __init__(self, listening: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._listening = listening
        self._make_protocol = make_protocol
        self._servers: list[asyncio.Server] = []

    async def open(self, backlog: int) -> None:
        """Make the handles; from `start` on the kernel queues up to `backlog` connections."""
        loop = asyncio.get_running_loop()
        with self._listening:
            for _ in range(ACCEPTS_A_TURN):
                self._servers.append(
                    await loop.create_server(
                        self._make_protocol,
                        sock=self._listening.dup(),
                        backlog=backlog,
                        start_serving=False,
                    )
                )

    async def start(self) -> None:
        """Accept connections."""
        for server in self._servers:
            await server.start_serving()

    def close(self) -> None:
        """Accept no more connections; those that were accepted go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()
