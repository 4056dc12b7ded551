"""Disables TCP pacing within this machine; connections to other machines keep the system's choice.

BBR, the default of many hosts, sends by timers at the rate that it has measured. Within one machine there is
no line whose rate could be measured, and the timers take more CPU time than the sending. Other default
algorithms of Linux do not pace, and are left unchanged.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

_CONGESTION: Final = getattr(socket, "TCP_CONGESTION", None)  # tcp(7); other systems than Linux have none
_NAME_BYTES: Final = 16
PACED: Final = b"bbr"  # and its successors: bbr2, bbr3
# Every kernel has it, and every user may choose it unless the administrator forbids it.
_UNPACED: Final = b"reno"


class Socket(Protocol):
    """A socket, or a loop's stand-in for one, by the methods that are needed here."""

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...

    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...

    def close(self) -> None: ...


def stop_pacing(listening: Socket, make_socket: Callable[[], Socket] = socket.socket) -> bytes:
    """Disable pacing for future connections to a socket; return the system's algorithm, b"" if it is kept.

    It must be called before a client connects: a socket that was ever paced is paced for good.
    """
    if _CONGESTION is None:
        return b""
    with suppress(OSError):
        chosen = _congestion_control(listening)
        if chosen.startswith(PACED):
            _try_both(make_socket(), chosen)
            listening.setsockopt(socket.IPPROTO_TCP, _CONGESTION, _UNPACED)
            return chosen
    return b""


def pace(connection: Socket, chosen: bytes) -> None:
    """Give a connection the algorithm from `stop_pacing`, unless its route has its own (`congctl`)."""
    assert _CONGESTION is not None
    with suppress(OSError):
        if _congestion_control(connection) == _UNPACED:
            connection.setsockopt(socket.IPPROTO_TCP, _CONGESTION, chosen)


def _congestion_control(one: Socket) -> bytes:
    assert _CONGESTION is not None
    return one.getsockopt(socket.IPPROTO_TCP, _CONGESTION, _NAME_BYTES).rstrip(b"\0")


def _try_both(trial: Socket, chosen: bytes) -> None:
    """Try to set both algorithms; OSError if one is not allowed: other machines would not get theirs back."""
    assert _CONGESTION is not None
    try:
        trial.setsockopt(socket.IPPROTO_TCP, _CONGESTION, _UNPACED)
        trial.setsockopt(socket.IPPROTO_TCP, _CONGESTION, chosen)
    finally:
        trial.close()
