"""Receive windows are wide for a few clients that send large frames, otherwise as the kernel sets them."""

import fcntl
import select
import socket
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ottla.node.net.receive_windows import DEFAULT_LIMIT_BYTES, WIDE_BYTES, ReceiveWindows, widest_bytes


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    with client, accepted:
        yield client, accepted


def test_a_few_windows_are_wide_and_one_that_is_given_back_goes_to_the_next(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    windows = ReceiveWindows(WIDE_BYTES)
    taken = [windows.widen(sockets[1]) for _ in range(100)]
    assert sum(taken) == DEFAULT_LIMIT_BYTES and set(taken) == {WIDE_BYTES, 0}

    windows.give_back(WIDE_BYTES)

    assert [windows.widen(sockets[1]) for _ in range(2)] == [WIDE_BYTES, 0]


def unread_bytes(client: socket.socket, accepted: socket.socket) -> int:
    """Return the unread bytes when the client can send no more."""
    client.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            client.send(bytes(1 << 16))
    return int.from_bytes(fcntl.ioctl(accepted, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.skipif(widest_bytes() < WIDE_BYTES, reason="the largest of net.ipv4.tcp_rmem is below 16 MiB")
def test_a_client_may_send_megabytes_before_the_first_is_read(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    client, accepted = sockets

    ReceiveWindows(WIDE_BYTES).widen(accepted)

    assert unread_bytes(client, accepted) > WIDE_BYTES // 2


def test_nothing_is_widened_if_the_kernel_allows_less(sockets: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = sockets

    assert ReceiveWindows(WIDE_BYTES - 1).widen(accepted) == 0

    assert unread_bytes(client, accepted) < WIDE_BYTES // 2


def test_one_byte_wakes_the_reader(sockets: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = sockets
    ReceiveWindows(WIDE_BYTES).widen(accepted)

    client.send(b"x")

    assert select.select([accepted], [], [], 10)[0] == [accepted]


def test_without_a_socket_there_is_nothing_to_widen() -> None:
    assert ReceiveWindows(WIDE_BYTES).widen(None) == 0
