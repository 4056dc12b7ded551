"""A listening socket accepts several connections in a turn of the loop."""

import asyncio
import socket
from contextlib import ExitStack

import uvloop

from ottla.node.net.acceptor import ACCEPTS_PER_TURN, Acceptor

CLIENTS = 3 * ACCEPTS_PER_TURN


def _listening() -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    sock.bind(("127.0.0.1", 0))
    return sock


async def _count_by_turn(
    acceptor: Acceptor, address: tuple[str, int], made: list[asyncio.Protocol]
) -> list[int]:
    """Connect all clients; return the number of connections accepted in each turn."""
    counts = []
    with ExitStack() as clients:
        for _ in range(CLIENTS):
            clients.enter_context(socket.create_connection(address, timeout=5))
        assert not made
        await acceptor.start()
        async with asyncio.timeout(5):
            while len(made) < CLIENTS:
                before = len(made)
                await asyncio.sleep(0)
                counts.append(len(made) - before)
    return counts


def test_several_connections_are_accepted_in_a_turn() -> None:
    made: list[asyncio.Protocol] = []

    def make() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    async def run() -> list[int]:
        listening = _listening()
        listening.listen(CLIENTS)
        address = listening.getsockname()
        acceptor = Acceptor(make)
        await acceptor.take(listening, CLIENTS)
        try:
            return await _count_by_turn(acceptor, address, made)
        finally:
            acceptor.close()

    counts = uvloop.run(run())

    assert max(counts) == ACCEPTS_PER_TURN and sum(counts) == CLIENTS


def test_a_closed_acceptor_gives_its_port_back() -> None:
    async def run() -> socket.socket:
        acceptor = Acceptor(asyncio.Protocol)
        bound = await acceptor.bind("127.0.0.1", 0, 1)
        address = bound.getsockname()
        await acceptor.start()
        acceptor.close()
        await asyncio.sleep(0.01)
        return socket.create_server(address)

    uvloop.run(run()).close()
