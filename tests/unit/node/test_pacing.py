"""Connections within one machine are not paced; those of other machines are sent to as the system does it."""

import asyncio
import socket

import pytest

from node.net.connection import Connection, Service
from node.net.connection_info import ConnectionInfo
from node.net.connection_quota import ConnectionQuota
from node.net.listener import Listener, ListenerLimits
from node.net.pacing import choose_congestion_control, stop_pacing
from node.net.receive_memory import ReceiveMemory


class Socket:
    """Has a congestion control, and may be one that lets nobody change it."""

    def __init__(self, congestion_control: bytes, *, is_closed: bool = False) -> None:
        self.congestion_control = congestion_control
        self.is_closed = is_closed

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes:
        return self.congestion_control.ljust(size, b"\0")

    def setsockopt(self, level: int, name: int, value: bytes, /) -> None:
        if self.is_closed:
            raise PermissionError("not among tcp_allowed_congestion_control")
        self.congestion_control = value


@pytest.mark.parametrize("paced", [b"bbr", b"bbr3"])
def test_what_paces_is_replaced_and_given_back(paced: bytes) -> None:
    sock = Socket(paced)
    chosen = stop_pacing(sock)
    assert (chosen, sock.congestion_control) == (paced, b"reno")
    choose_congestion_control(sock, chosen)
    assert sock.congestion_control == paced


@pytest.mark.parametrize("usual", [b"cubic", b"reno", b"dctcp"])
def test_what_does_not_pace_stays(usual: bytes) -> None:
    sock = Socket(usual)
    assert (stop_pacing(sock), sock.congestion_control) == (b"", usual)


def test_where_nothing_else_is_allowed_the_systems_choice_stays() -> None:
    sock = Socket(b"bbr", is_closed=True)
    assert (stop_pacing(sock), sock.congestion_control) == (b"", b"bbr")
    choose_congestion_control(sock, b"bbr")  # no error


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def has_bbr() -> bool:
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
        except OSError:
            return False
    return True


@pytest.mark.skipif(not has_bbr(), reason="this kernel has no BBR, or does not let us choose it")
@pytest.mark.parametrize(("is_local", "expected"), [(True, b"reno"), (False, b"bbr")])
def test_a_connection_is_paced_by_where_it_comes_from(
    is_local: bool, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener's own socket is made to look like that of a host with BBR."""
    real_stop = stop_pacing

    def stop(listening: socket.socket) -> bytes:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
        return real_stop(listening)

    monkeypatch.setattr("node.net.listener.stop_pacing", stop)
    if not is_local:
        monkeypatch.setattr(ConnectionInfo, "is_local", False)

    async def connect() -> bytes:
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def answer(connection: Connection, frame: memoryview) -> None:
            sock = connection._transport.get_extra_info("socket")
            found.set_result(congestion_control(sock))

        listener = Listener(
            name="PLAINTEXT",
            service=Service(serve=answer, fail=lambda connection, frame, error: None),
            memory=ReceiveMemory(),
            quota=ConnectionQuota(),
            limits=ListenerLimits(),
            start_task=asyncio.ensure_future,
        )
        await listener.bind("127.0.0.1", 0)
        await listener.start()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"\0\0\0\1x")
            return await asyncio.wait_for(found, 10)
        finally:
            writer.close()
            listener.stop_accepting()
            listener.abort_connections()

    assert asyncio.run(connect()) == expected
