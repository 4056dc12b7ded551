"""The links among voters over real sockets: which peers are accepted, and what unauthenticated
clients and peers cannot do.

The attacks are those that open pysyncobj's own port (X1 to X10 in metadata_raft/DESIGN.md): pickles, forged
votes, endless frames, exhausted file descriptors.
"""

import asyncio
import os
import resource
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import raft_link
from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_handshake import LINK, LinkIdentity, LinkLogin, LinkProof, hello, prove
from ottla.metadata_raft.raft_link import (
    MAX_LEFT,
    LeftError,
    LinkSettings,
    LinkTls,
    RaftLinks,
    ask_the_quorum,
)
from ottla.metadata_raft.raft_pending_links import MAX_PENDING_LINKS
from ottla.metadata_raft.raft_wire import LinkWire
from ottla.metadata_raft.voters import Voter, VoterSet
from tests.integration.certificates import write_certificates, write_forged
from tests.ports import free_port

CLUSTER_ID = b"a cluster of 16!"
SECRET = b"a secret of enough bytes"
HOST = "127.0.0.1"


def identity(node_id: int, cluster_id: bytes = CLUSTER_ID) -> LinkIdentity:
    return LinkIdentity(cluster_id, Peer(node_id, bytes([node_id]) * 16), Endpoint(HOST, 9000 + node_id))


class End:
    """The links of one node, and what they reported."""

    def __init__(self, node_id: int, ports: dict[int, int], **settings: Any) -> None:
        self.received: list[tuple[int, bytes]] = []
        self.up: list[tuple[int, bool]] = []
        self.refusing = False
        self.voters = VoterSet.of(Voter(one, bytes(16), HOST, port) for one, port in ports.items())
        settings = {"identity": identity(node_id), "secret": SECRET, "tls": None, **settings}
        self.settings = LinkSettings(listen=(HOST, ports[node_id]), **settings)
        self.links = RaftLinks(
            self.settings,
            chance=Random(node_id),
            unique=os.urandom,
            on_frame=self._receive,
            on_link=lambda peer, is_up: self.up.append((peer.node_id, is_up)),
        )

    def _receive(self, peer: Peer, frame: bytes) -> None:
        if self.refusing:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "malformed")
        self.received.append((peer.node_id, frame))

    async def start(self, tasks: asyncio.TaskGroup) -> "asyncio.Task[None]":
        await self.links.listen()
        self.links.dial(self.voters)
        return tasks.create_task(self.links.run())


async def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def play(scene: Callable[[asyncio.TaskGroup], Awaitable[list["asyncio.Task[None]"]]]) -> None:
    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            for task in await scene(tasks):
                task.cancel()

    asyncio.run(run())


async def pair(
    tasks: asyncio.TaskGroup, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None
) -> tuple[End, End, list["asyncio.Task[None]"]]:
    ports = {1: free_port(), 2: free_port()}
    ends = End(1, ports, **(first or {})), End(2, ports, **(second or {}))
    return *ends, [await end.start(tasks) for end in ends]


def test_two_nodes_that_share_the_secret_exchange_messages_and_broker_endpoints() -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        one, two, running = await pair(tasks)
        await until(lambda: one.links.has_room(2) and two.links.has_room(1))

        one.links.send(2, b"x" * 300_000)
        two.links.send(1, b"y")

        await until(lambda: two.received and one.received)
        assert two.received == [(1, b"x" * 300_000)] and one.received == [(2, b"y")]
        assert one.links.endpoints[2] == Endpoint(HOST, 9002)
        return running

    play(scene)


def test_a_voter_with_another_secret_is_reported_by_both_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        one, two, running = await pair(tasks, second={"secret": b"another secret that is as long"})
        await until(lambda: "has a different cluster.secret" in str(one.links.waits_for()))
        await until(lambda: "has a different cluster.secret" in str(two.links.waits_for()))
        await until(lambda: "check that its cluster.secret is the same" in caplog.text)

        port = two.voters.by_id[2].port
        assert f"Waiting for voter 2 at {HOST}:{port} (" in str(one.links.waits_for())
        assert "The connection was closed" not in caplog.text
        return running

    play(scene)


def test_a_peer_that_does_not_read_keeps_no_connection_open_at_a_stop() -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        one, two, running = await pair(tasks)
        await until(lambda: one.links.has_room(2) and two.links.has_room(1))
        ((_, wire),) = one.links._wires[2]
        for _, other in two.links._wires[1]:
            other._transport.pause_reading()
        while one.links.has_room(2):
            one.links.send(2, b"x" * 300_000)

        running[0].cancel()
        await asyncio.wait(running[:1])

        assert wire.is_closed and wire.closed.done()
        return running

    play(scene)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"secret": b"another secret of bytes"},
        {"identity": identity(2, b"another cluster!")},
        {"identity": identity(1)},
        {"identity": identity(3)},
    ],
)
def test_a_node_with_another_secret_cluster_or_name_gets_no_link(settings: dict[str, Any]) -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        one, two, running = await pair(tasks, second=settings)

        await asyncio.sleep(0.7)

        assert not one.links.has_room(2) and not two.received and not one.received
        return running

    play(scene)


def test_a_node_that_is_no_voter_gets_the_broker_endpoints_and_no_link() -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        one, _, running = await pair(tasks)
        await until(lambda: 2 in one.links.endpoints)
        settings = LinkSettings(identity(7, bytes(16)), SECRET, ("", 0))

        learned = await ask_the_quorum(*one.settings.listen, settings, nonce=os.urandom(32))

        assert learned == (CLUSTER_ID, {1: Endpoint(HOST, 9001), 2: Endpoint(HOST, 9002)})
        assert all(node_id != 7 for node_id, _ in one.up)
        with pytest.raises(KafkaError):
            wrong = settings._replace(secret=b"another secret of bytes")
            await ask_the_quorum(*one.settings.listen, wrong, nonce=os.urandom(32))
        return running

    play(scene)


PICKLE = b"cos\nsystem\n(S'touch /tmp/ottla-was-opened'\ntR."


@pytest.mark.parametrize(
    "first_bytes",
    [
        struct.pack("<i", len(PICKLE)) + PICKLE,  # X1: a frame of pysyncobj, which would unpickle it
        struct.pack(">I", len(PICKLE)) + PICKLE,
        struct.pack(">I", 2**31) + b"x" * 1000,  # X5, X9: an endless frame
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 8) + b"readonly",  # X3: an observer of pysyncobj
        struct.pack(">I", 2) + b"\7\0",  # entries before the proof
    ],
)
def test_unauthenticated_clients_are_disconnected_at_their_first_bytes(first_bytes: bytes) -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        one, _, running = await pair(tasks)
        reader, writer = await asyncio.open_connection(*one.settings.listen)

        writer.write(first_bytes)
        answer = await asyncio.wait_for(reader.read(), 8)

        assert len(answer) < 300 and not one.received
        writer.close()
        return running

    play(scene)
    assert not Path("/tmp/ottla-was-opened").exists()


def test_a_recorded_proof_is_invalid_on_another_connection() -> None:
    async def exchange(one: End, second_frame: bytes | None) -> tuple[bytes, bytes]:
        """Say hello as node 2; return the proof that was sent, and the last frame of the server."""
        reader, writer = await asyncio.open_connection(*one.settings.listen)
        sent = hello(identity(2), b"n" * 32, purpose=LINK)
        writer.write(struct.pack(">I", len(sent)) + sent)
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        answered = await reader.readexactly(length)
        proof = second_frame or prove(sent, answered, identity(2), SECRET, expected_id=1)[0]
        writer.write(struct.pack(">I", len(proof)) + proof)
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        last_frame = await reader.readexactly(length)
        writer.close()
        return proof, last_frame

    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        ports = {1: free_port(), 2: free_port()}
        one = End(1, ports)
        running = [await one.start(tasks)]

        proof, welcome = await exchange(one, None)
        _, refusal = await exchange(one, proof)

        assert (
            b"has a different cluster.secret" not in welcome and b"has a different cluster.secret" in refusal
        )
        return running

    play(scene)


def test_a_peer_that_sends_nonsense_loses_its_link_and_may_reconnect() -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        one, two, running = await pair(tasks)
        await until(lambda: one.links.has_room(2) and two.links.has_room(1))
        one.refusing = True
        two.links.send(1, b"nonsense")
        await until(lambda: one.links.refused)

        one.refusing = False
        await until(lambda: one.links.has_room(2) and two.links.has_room(1))
        await until(lambda: two.links.send(1, b"sense") or one.received)
        return running

    play(scene)


class HostileSockets:
    """Hostile sockets: they keep connections to a listener open and send little or nothing."""

    def __init__(self, address: tuple[str, int], count: int, first_bytes: bytes = b"") -> None:
        self.address = address
        self.count = count
        self.first_bytes = first_bytes
        self.opened = 0
        self.open: set[socket.socket] = set()

    async def run(self, tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        return [tasks.create_task(self._come_again(number)) for number in range(self.count)]

    async def _come_again(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with socket.socket() as one:
                one.setblocking(False)
                one.bind((f"127.0.{number % 3}.{1 + number % 7}", 0))
                try:
                    await loop.sock_connect(one, self.address)
                    self.opened += 1
                    self.open.add(one)
                    await loop.sock_sendall(one, self.first_bytes)
                    while await loop.sock_recv(one, 100):
                        continue
                except OSError:
                    pass
                finally:
                    self.open.discard(one)
            await asyncio.sleep(0.01)


HALF_A_HELLO = struct.pack(">I", 100) + b"x" * 50


@pytest.mark.slow
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("first_bytes", [b"", HALF_A_HELLO], ids=["silent", "slow"])
def test_an_endless_stream_of_unauthenticated_clients_keeps_no_voter_out(
    with_tls: bool, first_bytes: bytes, request: pytest.FixtureRequest
) -> None:
    """Unauthenticated clients fill both listeners before the voters connect, and keep them full."""
    certificates = request.getfixturevalue("certificates") if with_tls else None

    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        ports = {1: free_port(), 2: free_port()}
        settings = [{"tls": tls(certificates, f"node-{one}") if certificates else None} for one in ports]
        ends = [End(one, ports, **options) for one, options in zip(ports, settings, strict=True)]
        for end in ends:
            await end.links.listen()
        running = [tasks.create_task(end.links.run()) for end in ends]
        attacks = [HostileSockets(end.settings.listen, 3 * MAX_PENDING_LINKS, first_bytes) for end in ends]
        hostile = [task for attack in attacks for task in await attack.run(tasks)]
        await until(lambda: all(len(end.links._pending_links) == MAX_PENDING_LINKS for end in ends))
        await until(lambda: all(attack.opened > 5 * MAX_PENDING_LINKS for attack in attacks), 30)

        for end in ends:
            end.links.dial(end.voters)

        await until(lambda: all(end.links.has_room(3 - one) for one, end in enumerate(ends, 1)), 30)
        # The sockets of all other unauthenticated clients are closed, too.
        await until(lambda: all(len(attack.open) < 2 * MAX_PENDING_LINKS for attack in attacks), 30)
        assert all(len(end.links._pending_links) <= MAX_PENDING_LINKS for end in ends)
        for task in hostile:
            task.cancel()
        await until(lambda: not any(len(end.links._pending_links) for end in ends), 30)
        return running

    play(scene)


@pytest.mark.slow
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "TLS"])
def test_an_idle_unauthenticated_client_is_disconnected_soon(
    with_tls: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(raft_link, "AUTHENTICATION_SECONDS", 0.3)
    certificates = request.getfixturevalue("certificates") if with_tls else None

    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        ports = {1: free_port(), 2: free_port()}
        one = End(1, ports, tls=tls(certificates, "node-1") if certificates else None)
        running = [await one.start(tasks)]
        reader, writer = await asyncio.open_connection(*one.settings.listen)
        writer.write(HALF_A_HELLO[:3])

        assert not await asyncio.wait_for(reader.read(), 30)
        assert not len(one.links._pending_links)
        writer.close()
        return running

    play(scene)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_node_without_descriptors_listens_again_when_it_has_some() -> None:
    """X10: pysyncobj closes its listener for ever."""

    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        ports = {1: free_port(), 2: free_port()}
        one, two = End(1, ports), End(2, ports)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: None)
        running = [await one.start(tasks)]
        client = socket.socket()
        used = len(os.listdir("/proc/self/fd"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
        try:
            client.setblocking(False)
            await loop.sock_connect(client, one.settings.listen)  # the kernel accepts it, the node cannot
            await asyncio.sleep(0.3)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            client.close()

        running.append(await two.start(tasks))

        await until(lambda: one.links.has_room(2) and two.links.has_room(1))
        return running

    play(scene)


def test_the_address_of_a_peer_that_moved_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """pysyncobj itself caches an address for ten minutes."""

    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        ports = {1: free_port(), 2: free_port()}
        one, two = End(1, ports), End(2, ports)
        by_name = VoterSet.of(
            [Voter(1, bytes(16), "one.invalid", ports[1]), Voter(2, bytes(16), HOST, ports[2])]
        )
        two.voters = by_name
        addresses = {"one.invalid": "127.0.0.2"}
        loop = asyncio.get_running_loop()
        look_up = loop.getaddrinfo

        async def getaddrinfo(host: Any, port: Any, **options: Any) -> Any:
            return await look_up(addresses.get(host, host), port, **options)

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        running = [await two.start(tasks)]
        await asyncio.sleep(0.2)
        addresses["one.invalid"] = HOST
        one.voters = VoterSet.of([])
        running.append(await one.start(tasks))

        await until(lambda: two.links.has_room(1) and one.links.has_room(2))
        return running

    play(scene)


@pytest.mark.parametrize("with_hello", [True, False])
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "TLS"])
def test_a_peer_that_leaves_two_handshakes_in_a_row_is_logged_as_rejected(
    with_hello: bool, with_tls: bool, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """A node that is stopped leaves its handshakes; that is no rejection."""
    caplog.set_level("INFO")
    certificates = request.getfixturevalue("certificates") if with_tls else None
    sent = "was rejected"

    async def leave(one: End) -> None:
        """Leave a handshake as node 2: after its hello, during TLS, or without sending anything."""
        refused = one.links.refused
        dialling = None
        if certificates is not None and with_hello:
            dialling = _dialling(certificates, "node-2")
        reader, writer = await asyncio.open_connection(*one.settings.listen, ssl=dialling)
        if with_hello:
            words = hello(identity(2), b"n" * 32, purpose=LINK)
            writer.write(struct.pack(">I", len(words)) + words)
            await reader.readexactly(4)
        writer.transport.abort()
        await until(lambda: one.links.refused > refused)

    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        ports = {1: free_port(), 2: free_port()}
        settings = [{"tls": tls(certificates, f"node-{one}") if certificates else None} for one in ports]
        one, two = (End(number, ports, **options) for number, options in zip(ports, settings, strict=True))
        running = [await one.start(tasks)]
        await leave(one)
        assert sent not in caplog.text

        running.append(await two.start(tasks))
        # Each node has connected to the other.
        await until(
            lambda: all(len(end.links._wires.get(3 - own, ())) > 1 for own, end in ((1, one), (2, two)))
        )
        await leave(one)
        assert sent not in caplog.text, "a handshake has succeeded since"
        await leave(one)
        assert sent in caplog.text
        return running

    play(scene)


def test_only_the_last_peers_that_left_are_remembered() -> None:
    async def scene() -> None:
        ports = {1: free_port(), 2: free_port()}
        links, wire = End(1, ports).links, LinkWire()
        for number in range(3 * MAX_LEFT):
            assert links._leaves_once(LeftError(number), wire)
        assert len(links._left) == MAX_LEFT
        assert not links._leaves_once(LeftError(3 * MAX_LEFT - 1), wire)
        assert not links._leaves_once(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "refused"), wire)

    asyncio.run(scene())


# ---- with certificates -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write ca.pem, and NAME.pem with a key and a certificate chain for some names."""
    home = write_certificates(tmp_path_factory.mktemp("certificates"), "node-1", "node-2", "node-9")
    return write_forged(home, forged="node-2")


def tls(home: Path, name: str) -> Callable[[], LinkTls]:
    server, client = (context(home, name) for context in (_accepting, _dialling))
    return lambda: LinkTls(server, client)


def _accepting(home: Path, name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(home / f"{name}.pem")
    made.load_verify_locations(home / "ca.pem")
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def _dialling(home: Path, name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_cert_chain(home / f"{name}.pem")
    made.load_verify_locations(home / "ca.pem")
    made.check_hostname = False
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("name", "is_accepted"), [("node-2", True), ("node-9", False), ("forged", False)])
def test_a_certificate_is_valid_for_its_own_node_only(
    certificates: Path, name: str, is_accepted: bool
) -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        one, two, running = await pair(
            tasks, {"tls": tls(certificates, "node-1")}, {"tls": tls(certificates, name)}
        )
        if is_accepted:
            await until(lambda: one.links.has_room(2) and two.links.has_room(1))
            one.links.send(2, b"x")
            await until(lambda: two.received)
        else:
            await asyncio.sleep(1)
            assert not one.links.has_room(2) and not two.links.has_room(1)
        return running

    play(scene)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_listener_with_certificates_rejects_peers_without_one(certificates: Path) -> None:
    async def scene(tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        ports = {1: free_port(), 2: free_port()}
        one = End(1, ports, tls=tls(certificates, "node-1"))
        running = [await one.start(tasks)]
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.check_hostname = False
        bare.load_verify_locations(certificates / "ca.pem")
        for context in (None, lambda: LinkTls(bare, bare)):
            settings = LinkSettings(identity(2), SECRET, ("", 0), context)

            with pytest.raises((KafkaError, OSError, TimeoutError)):
                await ask_the_quorum(*one.settings.listen, settings, nonce=os.urandom(32))
        return running

    play(scene)


# ---- logins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("login", "is_accepted"),
    [
        (LinkLogin(user="node", password="node-secret"), True),
        (LinkLogin(user="node", password="wrong"), False),
        (LinkLogin(user="nobody", password="node-secret"), False),
        (None, False),
    ],
)
def test_a_listener_with_users_accepts_peers_that_log_in(login: LinkLogin | None, is_accepted: bool) -> None:
    async def scene() -> None:
        ports = {1: free_port(), 2: free_port()}
        server = End(1, ports, users=lambda: {"node": "node-secret"})
        settings = LinkSettings(identity(7, bytes(16)), SECRET, ("", 0), login=lambda: login)
        async with asyncio.TaskGroup() as tasks:
            running = await server.start(tasks)
            ask = ask_the_quorum(HOST, ports[1], settings, nonce=os.urandom(32))
            if is_accepted:
                assert (await ask)[0] == CLUSTER_ID
            else:
                with pytest.raises(KafkaError, match="did not log in, or used a wrong user") as refused:
                    await ask
                assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            running.cancel()

    asyncio.run(scene())


def test_a_password_is_shown_nowhere() -> None:
    login = LinkLogin(user="node", password="node-secret")

    assert "node-secret" not in repr(login)
    assert "node-secret" not in repr(LinkProof(proof=b"", user="node", password=b"node-secret"))
