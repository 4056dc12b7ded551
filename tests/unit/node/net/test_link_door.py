"""One port for links among voters and for Kafka's protocol, distinguished by their first bytes."""

import asyncio
import socket
import ssl
import struct

import pytest

from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_handshake import LINK, LINK_PROTOCOL, NONCE_BYTES, QUESTION, LinkIdentity, hello
from ottla.metadata_raft.raft_pending_links import MAX_PENDING_LINKS
from ottla.node.net import link_door
from ottla.node.net.arrivals import give_to
from ottla.node.net.link_door import MAX_OPENING_BYTES, LinkDoor, begins_link
from ottla.node.wire.peer_api import PeerApi

IDENTITY = LinkIdentity(bytes(16), Peer(1, bytes(16)), Endpoint("host", 9093))


def link(purpose: int) -> bytes:
    first = hello(IDENTITY, bytes(NONCE_BYTES), purpose=purpose)
    return struct.pack(">I", len(first)) + first


def client_hello(*protocols: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(received, sent).do_handshake()
    return sent.read()


def request(api_key: int) -> bytes:
    return struct.pack(">ihhi", 10, api_key, 0, 1) + b"\xff\xff"


@pytest.mark.parametrize(
    ("begin", "has_tls", "is_link"),
    [
        (link(LINK), False, True),
        (link(QUESTION), False, True),
        *((request(key), False, False) for key in (0, 18, 92, PeerApi.PEER_HANDSHAKE, PeerApi.ACT_FOR)),
        (b"GET / HTTP/1.1\r\n", False, False),
        (client_hello(LINK_PROTOCOL), True, True),
        (client_hello(), True, False),
        (client_hello("h2", "http/1.1"), True, False),
        (request(18), True, False),
    ],
)
def test_the_first_bytes_distinguish_a_link_from_a_request(
    begin: bytes, has_tls: bool, is_link: bool
) -> None:
    found = [begins_link(memoryview(begin)[:count], has_tls=has_tls) for count in range(len(begin) + 1)]
    known = [one for one in found if one is not None]

    assert known and set(known) == {is_link}, "it is known once, and never anything else"
    assert found[0] is None


def test_a_record_with_an_impossible_length_is_recognized_when_the_buffer_is_full() -> None:
    begin = b"\x16\x03\x01\xff\xff" + bytes(MAX_OPENING_BYTES)

    assert begins_link(memoryview(begin)[: MAX_OPENING_BYTES - 1], has_tls=True) is None
    assert begins_link(memoryview(begin)[:MAX_OPENING_BYTES], has_tls=True) is False


class Echo(asyncio.BufferedProtocol):
    """Sends all bytes back."""

    def __init__(self) -> None:
        self.buffer = bytearray(100)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(bytes(self.buffer[:nbytes]))  # type: ignore[attr-defined]


class Served:
    """A listener that echoes requests and keeps links."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.links: list[tuple[socket.socket, bytes]] = []
        self.door = LinkDoor(self, lambda *link: self.links.append(link), has_tls=False)

    def take_over(self, transport: asyncio.Transport, early: memoryview) -> None:
        give_to(Echo(), transport, early)

    async def start(self) -> tuple[str, int]:
        self.server = await self.loop.create_server(self.door.new, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        return host, port


def test_a_request_is_served_with_its_early_bytes_and_a_link_is_given_away_with_its_own() -> None:
    async def scene() -> None:
        served = Served()
        address = await served.start()
        reader, writer = await asyncio.open_connection(*address)
        for byte in request(18):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await reader.readexactly(14) == request(18)
        linked_reader, linked = await asyncio.open_connection(*address)
        linked.write(link(LINK))
        while not served.links:
            await asyncio.sleep(0.01)

        [(sock, received)] = served.links
        received += b"" if received == link(LINK) else await served.loop.sock_recv(sock, 1000)
        await served.loop.sock_sendall(sock, b"answer")

        assert received == link(LINK) and await linked_reader.readexactly(6) == b"answer"
        assert len(served.door) == 0
        sock.close()
        for one in (writer, linked):
            one.close()
        served.server.close()

    asyncio.run(scene())


def test_silent_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_door, "OPENING_SECONDS", 0.3)

    async def scene() -> None:
        served = Served()
        address = await served.start()
        connections = [await asyncio.open_connection(*address) for _ in range(3)]
        for reader, writer in connections:
            assert await asyncio.wait_for(reader.read(), 30) == b""
            writer.close()

        assert len(served.door) == 0
        served.server.close()

    asyncio.run(scene())


def test_many_silent_connections_of_one_address_push_the_oldest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_door, "OPENING_SECONDS", 3_600.0)

    async def scene() -> None:
        served = Served()
        address = await served.start()
        connections = [await asyncio.open_connection(*address) for _ in range(MAX_PENDING_LINKS + 1)]

        (oldest, _), *others = connections
        assert await asyncio.wait_for(oldest.read(), 30) == b""
        assert len(served.door) == MAX_PENDING_LINKS
        assert not any(reader.at_eof() for reader, _ in others)

        served.door.close()
        for reader, writer in connections:
            assert await asyncio.wait_for(reader.read(), 30) == b""
            writer.close()
        served.server.close()

    asyncio.run(scene())
