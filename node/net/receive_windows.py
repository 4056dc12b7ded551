"""Wide TCP receive windows for some of the connections that send large frames, within a budget.

The kernel starts with a window of 64 KiB and widens it as the socket is read. Until then each read lets the
client send a little more, and that work happens within the read: a fifth of the cost of a producer's megabyte
on the loop. If a socket is set to wake its reader after `SO_RCVLOWAT` bytes, the kernel widens its window for
them, up to half of the maximum in net.ipv4.tcp_rmem, which it could reach by itself. Set back to one byte,
the socket keeps the wide window.
"""

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

# Less is of no use, so nothing is done if the kernel allows less, as with its default maximum of 3 MiB.
WIDE_BYTES: Final = 8 * 1024 * 1024
# A client that is not read while memory is scarce may fill its window; the kernel counts twice as much.
DEFAULT_LIMIT_BYTES: Final = 64 * 1024 * 1024
WIDENING_FRAME_BYTES: Final = 512 * 1024  # windows are widened for larger frames, once a part has arrived
_RECEIVE_MEMORY: Final = Path("/proc/sys/net/ipv4/tcp_rmem")


def widest_bytes() -> int:
    """Return the largest window that the kernel allows; 0 if that is unknown."""
    with suppress(OSError, ValueError, IndexError):
        return int(_RECEIVE_MEMORY.read_text().split()[2]) // 2
    return 0


class ReceiveWindows:
    """The widened receive windows of all connections of a node."""

    def __init__(self, widest: int, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """`widest` is this machine's `widest_bytes`; `limit_bytes` the limit of all wide windows together."""
        self.used_bytes = 0
        self.limit_bytes = limit_bytes if widest >= WIDE_BYTES else 0

    def widen(self, sock: Any) -> int:
        """Widen the window of a socket if the limit allows; return the bytes to give back later, or 0."""
        if sock is None or self.used_bytes + WIDE_BYTES > self.limit_bytes:
            return 0
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WIDE_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.used_bytes += WIDE_BYTES
        return WIDE_BYTES

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
