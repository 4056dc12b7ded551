"""What clients may have under way: a lot for a few that send large frames, else as the kernel does it."""

import socket
import sys
from collections.abc import Iterator

import pytest

from node.net.receive_windows import MAX_ALL_WIDE_BYTES, WIDE_BYTES, ReceiveWindows


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    with client, accepted:
        yield client, accepted


def test_a_few_are_wide_and_what_is_given_back_is_had_by_the_next(
    line: tuple[socket.socket, socket.socket],
) -> None:
    windows = ReceiveWindows()
    taken = [windows.widen(line[1]) for _ in range(100)]
    assert sum(taken) == MAX_ALL_WIDE_BYTES and set(taken) == {WIDE_BYTES, 0}

    windows.give_back(WIDE_BYTES)

    assert [windows.widen(line[1]) for _ in range(2)] == [WIDE_BYTES, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such window")
def test_a_client_may_send_megabytes_before_the_first_is_read_and_one_byte_wakes_the_reader(
    line: tuple[socket.socket, socket.socket],
) -> None:
    client, accepted = line
    client.setblocking(False)

    ReceiveWindows().widen(accepted)
    client.send(b"x")

    accepted.settimeout(10)
    assert accepted.recv(10) == b"x"
    accepted.setblocking(False)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 2 << 20
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def test_without_a_socket_there_is_nothing_to_widen() -> None:
    assert ReceiveWindows().widen(None) == 0
