"""Ports for the servers of a test, below those that the system gives to clients, and none twice in a process.

A port is free only until another process takes it. Several processes test at once, so each begins elsewhere.
"""

import os
import socket
from collections.abc import Iterator

FIRST, LAST = 12_000, 32_000  # below the ports that the system gives to clients
STRIDE = 7_919  # a prime: processes with consecutive ids begin far apart


def free_port() -> int:
    """Return a port that no process listens on."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports that no process listens on."""
    while True:
        first = next(_starts)
        if first + count <= LAST and all(_is_free(port) for port in range(first, first + count)):
            for _ in range(count - 1):
                next(_starts)
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _all_ports() -> Iterator[int]:
    at = os.getpid() * STRIDE % (LAST - FIRST)
    while True:
        yield FIRST + at
        at = (at + 1) % (LAST - FIRST)


_starts = _all_ports()
