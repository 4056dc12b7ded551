"""How much a client may have under way to this node: at once a lot for some of those that send large frames.

The kernel begins with 64 KiB and gives more as it is read from. Until then each read lets the client send a
little, and that work is done where the read is: a fifth of a producer's megabyte on the loop. The window of a
socket that is to wake its reader for `SO_RCVLOWAT` bytes is widened for them, up to half of the largest of
net.ipv4.tcp_rmem, which it could come to by itself; told to wake for one byte again, it keeps it.
"""

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

# Less is of no use, so nothing is done where the kernel allows less: as by default, with 3 MiB.
WIDE_BYTES: Final = 8 * 1024 * 1024
# A client that is not read from, as memory is scarce, may fill its window; the kernel counts twice as much.
DEFAULT_LIMIT_BYTES: Final = 64 * 1024 * 1024
WIDENING_FRAME_BYTES: Final = 512 * 1024  # more than that, of which a part was sent already
_RECEIVE_MEMORY: Final = Path("/proc/sys/net/ipv4/tcp_rmem")


def widest_bytes() -> int:
    """What the kernel widens a window to; 0 where it does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(_RECEIVE_MEMORY.read_text().split()[2]) // 2
    return 0


class ReceiveWindows:
    """Those of all connections of a node."""

    def __init__(self, widest: int, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """`widest`: the `widest_bytes` of this machine; `limit_bytes`: of all wide windows together."""
        self.used_bytes = 0
        self.limit_bytes = limit_bytes if widest >= WIDE_BYTES else 0

    def widen(self, sock: Any) -> int:
        """Widen that of a socket; how much that takes, to be given back."""
        if sock is None or self.used_bytes + WIDE_BYTES > self.limit_bytes:
            return 0
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WIDE_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.used_bytes += WIDE_BYTES
        return WIDE_BYTES

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
