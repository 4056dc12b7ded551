"""Connections within one machine are not paced; connections to other machines keep the system's choice."""

import asyncio
import os
import socket
from contextlib import suppress

import pytest

from ottla.node.net.answers import Service
from ottla.node.net.connection import Connection
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.connection_quota import ConnectionQuota
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.listener import Listener, ListenerLimits
from ottla.node.net.pacing import pace, stop_pacing
from ottla.node.net.receive_memory import ReceiveMemory


class Socket:
    """A socket with a congestion control, limited to those that its system allows."""

    def __init__(self, congestion_control: bytes, *, allowed: frozenset[bytes] | None = None) -> None:
        self.congestion_control = congestion_control
        self.allowed = allowed
        self.is_closed = False

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes:
        return self.congestion_control.ljust(size, b"\0")

    def setsockopt(self, level: int, name: int, value: bytes, /) -> None:
        if self.allowed is not None and value not in self.allowed:
            raise PermissionError("not among tcp_allowed_congestion_control")
        self.congestion_control = value

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("paced", [b"bbr", b"bbr3"])
def test_an_algorithm_that_paces_is_replaced_and_given_back(paced: bytes) -> None:
    listening, trial = Socket(paced), Socket(paced)
    chosen = stop_pacing(listening, lambda: trial)
    assert (chosen, listening.congestion_control) == (paced, b"reno")
    assert trial.is_closed
    connection = Socket(listening.congestion_control)  # as accept(2) does
    pace(connection, chosen)
    assert connection.congestion_control == paced


@pytest.mark.parametrize("usual", [b"cubic", b"reno", b"dctcp"])
def test_an_algorithm_that_does_not_pace_is_kept(usual: bytes) -> None:
    listening = Socket(usual)
    assert (stop_pacing(listening, lambda: Socket(usual)), listening.congestion_control) == (b"", usual)


@pytest.mark.parametrize("allowed", [{b"bbr"}, {b"reno"}, set()])
def test_the_systems_choice_is_kept_if_only_one_of_both_algorithms_is_allowed(allowed: set[bytes]) -> None:
    """Otherwise other machines would not get the system's choice back."""
    listening = Socket(b"bbr", allowed=frozenset(allowed))
    trial = Socket(b"bbr", allowed=frozenset(allowed))
    assert (stop_pacing(listening, lambda: trial), listening.congestion_control) == (b"", b"bbr")
    assert trial.is_closed


def test_an_algorithm_chosen_by_a_route_is_kept() -> None:
    connection = Socket(b"dctcp")
    pace(connection, b"bbr")
    assert connection.congestion_control == b"dctcp"


def test_a_connection_that_takes_nothing_else_is_served_as_it_is() -> None:
    connection = Socket(b"reno", allowed=frozenset())
    pace(connection, b"bbr")
    assert connection.congestion_control == b"reno"


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def other_than_reno() -> bytes:
    """Return BBR, or an algorithm that this system allows instead."""
    for name in (b"bbr", b"cubic"):
        with suppress(OSError), socket.socket() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
            return name
    pytest.skip("this system lets us choose neither BBR nor CUBIC")


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="congestion control is Linux's")
@pytest.mark.parametrize("is_local", [True, False])
def test_a_connection_is_paced_by_where_it_comes_from(
    is_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listening socket is set up like that of a host with BBR."""
    paced = other_than_reno()
    monkeypatch.setattr("ottla.node.net.pacing.PACED", paced)

    def stop(listening: socket.socket) -> bytes:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, paced)
        return stop_pacing(listening)

    monkeypatch.setattr("ottla.node.net.listener.stop_pacing", stop)
    if not is_local:
        monkeypatch.setattr(ConnectionInfo, "is_local", False)

    async def connect() -> bytes:
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def answer(connection: Connection, frame: memoryview) -> None:
            with socket.socket(fileno=os.dup(connection.file_number)) as sock:
                found.set_result(congestion_control(sock))

        listener = Listener(
            name="PLAINTEXT",
            service=Service(serve=answer, fail=lambda connection, frame, error: None),
            memory=ReceiveMemory(),
            quota=ConnectionQuota(),
            limits=ListenerLimits(),
            start_task=asyncio.ensure_future,
            gathered=GatheredAnswers(asyncio.get_running_loop()),
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

    assert asyncio.run(connect()) == (b"reno" if is_local else paced)
