"""TLS between a socket and a connection, both played by the test: every split of the bytes, and every end."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from ottla.logstore.disk import FileRecords, MemoryDisk, MemoryFile
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.login import FailureLimits, LoginCounts
from ottla.node.net.server_tls import ServerTls
from ottla.node.net.tls_transport import READ_BYTES, SEAL_BYTES, SEAL_TURN_BYTES, TlsShared, TlsTransport
from tests.unit.node.net.test_connection import advance_clock

CA = trustme.CA()
ADDRESS = "127.0.0.1"


class Lower:
    """The transport of a socket: it has sent what the test has taken."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_reading = True
        self.is_closed = self.is_aborted = False
        self.size = 0

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (ADDRESS, 1) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return self.size

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class Upper:
    """A connection that keeps what it receives, and records events."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.view = memoryview(bytearray(room))
        self.received = b""
        self.events: list[str] = []
        self.stays_half_open = False
        self.pauses_after: int | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport: TlsTransport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view

    def buffer_updated(self, nbytes: int) -> None:
        assert 0 < nbytes <= self.room
        self.received += self.view[:nbytes]
        if self.pauses_after is not None and len(self.received) >= self.pauses_after:
            self.pauses_after = None
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.events.append("end")
        return self.stays_half_open

    def pause_writing(self) -> None:
        self.events.append("blocked")

    def resume_writing(self) -> None:
        self.events.append("free")

    def identify(self, principal: str) -> None:
        self.events.append(principal)

    def refuse(self, reason: str) -> None:
        self.events.append(f"refused: {reason}")
        self.transport.close()

    def abort(self, reason: str) -> None:
        self.events.append(f"aborted: {reason}")
        self.transport.abort()


class Executor:
    """An executor whose thread computes when the test says so, or at once."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[[], None]]] = []
        self.is_quick = True

    def submit(self, address: str, *step: Any) -> None:
        self.waiting.append(cast(Any, step))
        if self.is_quick:
            self.compute()

    def compute(self) -> None:
        work, done, _ = self.waiting.pop(0)
        done(work())


class Line:
    """A TLS client and the server's end, with all bytes between them controlled by the test."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        certificate: trustme.LeafCert | None = None,
        verify: ssl.VerifyMode = ssl.CERT_NONE,
        room: int = 1000,
        failed_delay_s: float = 0.0,
        counts_success: bool = True,
        limits: FailureLimits | None = None,
        is_for_peers: bool = False,
    ) -> None:
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        SERVER.configure_cert(server)
        CA.configure_trust(server)
        CA.configure_trust(client)
        server.verify_mode, server.num_tickets = verify, 0
        client.maximum_version = client.minimum_version = version
        if certificate is not None:
            certificate.configure_cert(client)
        self.loop = loop
        self.executor, self.lower, self.upper = Executor(), Lower(), Upper(room)
        self.tasks: list[asyncio.Task[Any]] = []
        self.counts = LoginCounts()
        self.refused: list[tuple[str, str]] = []  # by certificate, for the audit log
        shared = TlsShared(
            loop,
            cast(HandshakeExecutor, self.executor),
            self.start,
            failed_delay_s,
            lambda address, reason: self.refused.append((address, reason)),
            counts=self.counts,
            counts_success=counts_success,
            limits=limits,
            is_for_peers=is_for_peers,
        )
        tls = ServerTls(server, lambda shown: "anybody" if shown is None else f"{len(shown) > 0}")
        self.transport = TlsTransport(self.upper, tls, shared)
        self.to_client, self.to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self.to_client, self.to_server, server_hostname="localhost")
        self.transport.connection_made(cast(asyncio.BaseTransport, self.lower))

    def start(self, work: Any) -> "asyncio.Task[Any]":
        self.tasks.append(self.loop.create_task(work))
        return self.tasks[-1]

    def deliver(self, data: bytes, split: int = READ_BYTES) -> bytes:
        """Hand bytes over as the loop would; return those that the server would not read."""
        while data and self.lower.is_reading and not self.lower.is_closed:
            piece, data = data[:split], data[split:]
            self.transport.get_buffer(-1)[: len(piece)] = piece
            self.transport.buffer_updated(len(piece))
        return data

    def take(self) -> None:
        """Give the sent bytes to the client."""
        self.to_client.write(b"".join(self.lower.written))
        self.lower.written.clear()

    def shake_hands(self, split: int = READ_BYTES) -> None:
        for _ in range(6):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                pass
            assert not self.deliver(self.to_server.read(), split)
            self.take()

    def read(self) -> bytes:
        self.take()
        found = b""
        try:
            while chunk := self.client.read(1 << 16):
                found += chunk
        except ssl.SSLWantReadError:
            pass
        return found

    def sealed(self, data: bytes) -> bytes:
        self.client.write(data)
        return self.to_server.read()

    def turn(self) -> None:
        for _ in range(3):
            self.loop.run_until_complete(asyncio.sleep(0))


SERVER = CA.issue_cert("localhost")
CLIENT = CA.issue_cert("client")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_connection_is_served_however_its_bytes_are_split(
    loop: asyncio.AbstractEventLoop, version: ssl.TLSVersion
) -> None:
    for split in (1, 2, 5, 23, 1000, READ_BYTES):
        line = Line(loop, version=version)
        line.shake_hands(split)
        sent = bytes(range(256)) * 20

        assert not line.deliver(line.sealed(sent), split)
        line.transport.write(b"answer")

        assert line.upper.received == sent
        assert line.read() == b"answer"
        assert line.upper.events == ["anybody"]


def test_records_that_are_split_at_any_byte_are_received_whole(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop)
    line.shake_hands()
    sent = b""
    for number in range(160):
        data = line.sealed(b"%03d" % number + b"x" * 100) + line.sealed(b"y")
        line.deliver(data[:number])
        line.deliver(data[number:])
        sent += b"%03d" % number + b"x" * 100 + b"y"

    assert line.upper.received == sent


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("verify", "certificate", "principal"),
    [
        (ssl.CERT_NONE, CLIENT, "anybody"),
        (ssl.CERT_OPTIONAL, None, "anybody"),
        (ssl.CERT_OPTIONAL, CLIENT, "True"),
        (ssl.CERT_REQUIRED, CLIENT, "True"),
    ],
)
def test_a_client_with_a_certificate_is_identified_before_anything_is_served(
    loop: asyncio.AbstractEventLoop,
    version: ssl.TLSVersion,
    verify: ssl.VerifyMode,
    certificate: trustme.LeafCert | None,
    principal: str,
) -> None:
    line = Line(loop, version=version, verify=verify, certificate=certificate)

    line.shake_hands()

    assert line.upper.events == [principal]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_a_required_certificate_is_refused_with_an_alert(
    loop: asyncio.AbstractEventLoop, version: ssl.TLSVersion
) -> None:
    line = Line(loop, version=version, verify=ssl.CERT_REQUIRED)

    with pytest.raises(ssl.SSLError, match=r"(?i)certificate required|handshake failure"):
        line.shake_hands()
        line.read()
    line.turn()

    assert line.upper.events == ["refused: the TLS handshake failed: peer did not return a certificate"]
    assert line.lower.is_closed and not line.lower.is_aborted


def test_a_certificate_of_another_authority_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop, verify=ssl.CERT_REQUIRED, certificate=trustme.CA().issue_cert("client"))

    with pytest.raises(ssl.SSLError):
        line.shake_hands()
        line.read()
    line.turn()

    (event,) = line.upper.events
    assert event.startswith("refused: the TLS handshake failed: its certificate is refused: ")
    assert [reason for _, reason in line.refused] == [event.removeprefix("refused: ")]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_failed_handshake_is_answered_at_once_and_closed_later(
    loop: asyncio.AbstractEventLoop, leaves: bool
) -> None:
    line = Line(loop, verify=ssl.CERT_REQUIRED, failed_delay_s=60)

    with pytest.raises(ssl.SSLError):
        line.shake_hands()
        line.read()
    line.turn()

    assert line.upper.events == [] and not line.lower.is_closed and not line.lower.is_reading
    if leaves:
        line.transport.connection_lost(None)
    advance_clock(loop, 60)
    line.turn()
    assert [one.partition(":")[0] for one in line.upper.events] == ["lost" if leaves else "refused"]


class Limits:
    """Limits of failures that delay each one by the same time."""

    def __init__(self, held_s: float = 0.0, *, refuses: bool = False) -> None:
        self.held_s, self.refuses = held_s, refuses
        self.noted: list[str] = []

    def is_refused(self, address: str, now_s: float) -> bool:
        return self.refuses

    def note(self, address: str, now_s: float) -> float:
        self.noted.append(address)
        return self.held_s


@pytest.mark.parametrize(("counts_success", "successful"), [(True, 1), (False, 0)])
def test_a_handshake_counts_as_a_login_if_no_other_follows(
    loop: asyncio.AbstractEventLoop, counts_success: bool, successful: int
) -> None:
    line = Line(loop, counts_success=counts_success)

    line.shake_hands()

    assert (line.counts.successful, line.counts.failed) == (successful, 0)


def test_a_handshake_that_failed_counts_as_a_failed_login_of_its_address(
    loop: asyncio.AbstractEventLoop,
) -> None:
    limits = Limits(held_s=60)
    line = Line(loop, verify=ssl.CERT_REQUIRED, limits=limits)

    with pytest.raises(ssl.SSLError):
        line.shake_hands()
        line.read()
    line.turn()

    assert (line.counts.successful, line.counts.failed) == (0, 1)
    assert limits.noted == [ADDRESS] and line.upper.events == []
    advance_clock(loop, 60)
    line.turn()
    assert [one.partition(":")[0] for one in line.upper.events] == ["refused"]


def test_bytes_that_are_not_tls_count_as_a_failed_login(loop: asyncio.AbstractEventLoop) -> None:
    limits = Limits()
    line = Line(loop, limits=limits)

    line.deliver(b"\0\0\0\x20")

    assert line.counts.failed == 1 and limits.noted == [ADDRESS]


def test_handshakes_of_an_address_with_too_many_failures_are_not_computed(
    loop: asyncio.AbstractEventLoop,
) -> None:
    line = Line(loop, limits=Limits(refuses=True))
    line.executor.is_quick = False
    with pytest.raises(ssl.SSLWantReadError):
        line.client.do_handshake()

    line.deliver(line.to_server.read())

    assert line.upper.events == ["aborted: too many logins from its address have failed"]
    assert not line.executor.waiting and line.lower.is_aborted


def test_a_listener_that_nodes_dial_refuses_no_handshake_unseen(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop, limits=Limits(refuses=True), is_for_peers=True)

    line.shake_hands()

    assert line.counts.successful == 1 and not line.lower.is_aborted


@pytest.mark.parametrize("how", ["end", "end while it is computed", "reset", "silence"])
def test_a_handshake_that_was_begun_and_left_counts_against_its_address(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("ottla.node.net.tls_transport.HANDSHAKE_SECONDS", 0.01)
    limits = Limits()
    line = Line(loop, limits=limits)
    line.executor.is_quick = how != "end while it is computed"
    with pytest.raises(ssl.SSLWantReadError):
        line.client.do_handshake()
    line.deliver(line.to_server.read())

    if how == "reset":
        line.transport.connection_lost(ConnectionResetError())
    elif how == "silence":
        loop.run_until_complete(asyncio.sleep(0.03))
    else:
        line.transport.eof_received()
        if line.executor.waiting:
            line.executor.compute()

    assert limits.noted == [ADDRESS]
    assert line.counts.failed == (1 if how == "silence" else 0)


@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_client_that_only_checks_whether_the_port_is_open_is_not_counted(
    loop: asyncio.AbstractEventLoop, how: str
) -> None:
    limits = Limits()
    line = Line(loop, limits=limits)

    if how == "end":
        line.transport.eof_received()
    else:
        line.transport.connection_lost(ConnectionResetError())

    assert limits.noted == [] and line.counts.failed == 0


def test_a_handshake_that_failed_counts_once(loop: asyncio.AbstractEventLoop) -> None:
    limits = Limits(held_s=10.0)
    line = Line(loop, verify=ssl.CERT_REQUIRED, limits=limits)
    with pytest.raises(ssl.SSLError):
        line.shake_hands()
        line.read()

    line.transport.connection_lost(None)

    assert limits.noted == [ADDRESS]


def test_bytes_that_are_not_tls_are_refused_at_the_first_one(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop)

    line.deliver(b"\0\0\0\x20")

    assert line.upper.events == ["aborted: it does not speak TLS to a listener with TLS (SSL or SASL_SSL)"]
    assert line.lower.is_aborted


def test_nothing_is_read_while_a_thread_computes(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop)
    line.executor.is_quick = False
    with pytest.raises(ssl.SSLWantReadError):
        line.client.do_handshake()

    line.deliver(line.to_server.read())

    assert len(line.executor.waiting) == 1 and not line.lower.is_reading
    line.executor.compute()
    assert line.lower.is_reading and line.lower.written


def test_a_connection_that_ends_while_a_thread_computes_is_forgotten(loop: asyncio.AbstractEventLoop) -> None:
    for end in ("lost", "closed"):
        line = Line(loop)
        line.executor.is_quick = False
        with pytest.raises(ssl.SSLWantReadError):
            line.client.do_handshake()
        line.deliver(line.to_server.read())
        if end == "lost":
            line.transport.connection_lost(None)
        else:
            line.transport.close()
            assert not line.lower.is_closed, "the thread has the TLS object"

        line.executor.compute()

        assert line.upper.events == (["lost"] if end == "lost" else [])
        assert line.lower.is_closed is (end == "closed")


def test_a_handshake_that_takes_too_long_is_given_up(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.node.net.tls_transport.HANDSHAKE_SECONDS", 0.0)
    line = Line(loop)

    line.loop.run_until_complete(asyncio.sleep(0.01))

    assert line.upper.events == ["aborted: its TLS handshake took longer than 0 s"]


def test_a_handshake_whose_turn_never_comes_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop)
    line.executor.is_quick = False
    with pytest.raises(ssl.SSLWantReadError):
        line.client.do_handshake()
    line.deliver(line.to_server.read())

    line.executor.waiting.pop()[2]()

    assert line.upper.events == ["aborted: too many TLS handshakes wait"]


@pytest.mark.parametrize("pauses_after", [1, 999, 1000, 16_384, 40_000, 100_000])
def test_received_bytes_are_not_lost_when_reading_was_paused(
    loop: asyncio.AbstractEventLoop, pauses_after: int
) -> None:
    line = Line(loop)
    line.shake_hands()
    line.upper.pauses_after = pauses_after
    sent = b"".join(b"%07d," % number for number in range(12_500))
    data = line.sealed(sent)
    first, others = data[:READ_BYTES], data[READ_BYTES:]

    line.deliver(first)
    paused_at = len(line.upper.received)
    assert pauses_after <= paused_at < pauses_after + 1000 and not line.lower.is_reading
    line.turn()
    assert len(line.upper.received) == paused_at

    line.transport.resume_reading()
    line.turn()
    assert not line.deliver(others)
    assert line.upper.received == sent


@pytest.mark.parametrize("sends_close_notify", [True, False])
@pytest.mark.parametrize("is_paused", [True, False])
def test_the_end_of_the_stream_is_reported_after_all_bytes_before_it(
    loop: asyncio.AbstractEventLoop, sends_close_notify: bool, is_paused: bool
) -> None:
    line = Line(loop)
    line.shake_hands()
    line.upper.stays_half_open = True
    data = line.sealed(b"z" * 5000)
    if sends_close_notify:
        with pytest.raises(ssl.SSLWantReadError):
            line.client.unwrap()
        data += line.to_server.read()
    if is_paused:
        line.upper.pauses_after = 1

    line.deliver(data)
    assert line.transport.eof_received()
    if is_paused:
        assert "end" not in line.upper.events
        line.transport.resume_reading()
        line.turn()

    assert line.upper.received == b"z" * 5000
    assert line.upper.events == ["anybody", "end"]
    line.transport.write(b"the last answer")  # the peer has only ended its own side
    line.transport.close()
    if not sends_close_notify:
        assert line.read() == b"the last answer"
    assert line.lower.is_closed and not line.lower.is_aborted


def test_bytes_after_close_notify_take_no_memory(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop)
    line.shake_hands()
    line.upper.stays_half_open = True
    with pytest.raises(ssl.SSLWantReadError):
        line.client.unwrap()
    line.deliver(line.to_server.read())

    for _ in range(10):
        line.deliver(bytes(READ_BYTES))

    assert line.upper.events == ["anybody", "end"] and not line.upper.received
    assert line.transport.get_extra_info("peer_has_ended")(), "nothing is kept"


def test_damaged_records_are_refused_and_what_was_good_before_them_is_served(
    loop: asyncio.AbstractEventLoop,
) -> None:
    line = Line(loop)
    line.shake_hands()
    good, bad = line.sealed(b"good"), bytearray(line.sealed(b"bad"))
    bad[-1] ^= 1

    line.deliver(good + bad)

    assert line.upper.received == b"good"
    assert line.upper.events[1].startswith("refused: what it sent is not TLS: ")


def test_a_large_answer_is_sealed_only_as_the_socket_takes_it(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop)
    line.shake_hands()
    answer = bytes(range(256)) * 4096
    usual = line.lower.write

    def write(data: bytes) -> None:
        usual(data)
        if len(line.lower.written) % 3 == 0:
            line.transport.pause_writing()

    line.lower.write = write  # type: ignore[method-assign]
    line.transport.writelines([answer])
    line.transport.write(b"and one more")

    assert line.upper.events == ["anybody", "blocked"]
    assert sum(map(len, line.lower.written)) < 120_000
    assert line.transport.get_write_buffer_size() > 900_000
    found = b""
    while "free" not in line.upper.events:
        found += line.read()
        line.transport.resume_writing()
    assert found + line.read() == answer + b"and one more"


def test_a_very_large_answer_is_sealed_in_turns_with_others(loop: asyncio.AbstractEventLoop) -> None:
    line = Line(loop)
    line.shake_hands()
    answer = bytes(range(256)) * (3 * SEAL_TURN_BYTES // 256)

    line.transport.writelines([answer])
    line.transport.write(b"and one more")
    found = [len(line.read())]
    events = list(line.upper.events)
    while line.transport.get_write_buffer_size():
        loop.call_soon(loop.stop)
        loop.run_forever()  # one turn
        found.append(len(line.read()))

    assert events == ["anybody", "blocked"] and line.upper.events[-1] == "free"
    assert sum(found) == len(answer) + len(b"and one more")
    assert max(found) <= SEAL_TURN_BYTES + SEAL_BYTES


@pytest.mark.parametrize("is_cold", [True, False])
def test_records_in_files_leave_in_their_order_and_a_close_waits_for_them(
    loop: asyncio.AbstractEventLoop, is_cold: bool
) -> None:
    line = Line(loop)
    line.shake_hands()
    content = b"".join(b"%07d," % number for number in range(50_000))
    disk = MemoryDisk()
    disk.make_directory(Path("/data"))
    disk.is_sendable, disk.is_cached = not is_cold, not is_cold
    file: MemoryFile = disk.open(Path("/data/log"), create=True)
    file.write_at(0, [content])
    records = FileRecords(file, 8, len(content) - 8)

    line.transport.writelines([b"header,", records])
    line.transport.write(b"trailer")
    line.transport.close()
    found = line.read()
    while not line.lower.is_closed:
        line.loop.run_until_complete(asyncio.sleep(0.001))
        found += line.read()

    assert found + line.read() == b"header," + content[8:] + b"trailer"
    assert not line.lower.is_aborted
