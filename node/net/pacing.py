"""Who is paced: what leaves for other machines, as the system chose; what stays on this one is not.

BBR, the default of many hosts, sends by timers at the rate that it has measured. Within one machine there is
no line whose rate could be measured, and the timers take more of the processor than the sending. Other
algorithms that Linux has as defaults do not pace, and nothing is changed where they are.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

_CONGESTION: Final = getattr(socket, "TCP_CONGESTION", None)  # tcp(7); other systems than Linux have none
_NAME_BYTES: Final = 16
PACED: Final = b"bbr"  # and what follows it: bbr2, bbr3
# In every kernel, and open to every user where the administrator did not forbid it.
_UNPACED: Final = b"reno"


class Socket(Protocol):
    """What a socket and the loops' stand-ins for one have."""

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...

    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...

    def close(self) -> None: ...


def stop_pacing(listening: Socket, make_socket: Callable[[], Socket] = socket.socket) -> bytes:
    """Let connections that will come in here send at once; the system's own choice, b"" if that stays.

    Before one connects: a socket that was ever paced is paced for good.
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
    """Give a connection back what `stop_pacing` found, but where a route's own choice holds (`congctl`)."""
    assert _CONGESTION is not None
    with suppress(OSError):
        if _congestion_control(connection) == _UNPACED:
            connection.setsockopt(socket.IPPROTO_TCP, _CONGESTION, chosen)


def _congestion_control(one: Socket) -> bytes:
    assert _CONGESTION is not None
    return one.getsockopt(socket.IPPROTO_TCP, _CONGESTION, _NAME_BYTES).rstrip(b"\0")


def _try_both(trial: Socket, chosen: bytes) -> None:
    """OSError where one of the two is not for us to choose: other machines would not get theirs back."""
    assert _CONGESTION is not None
    try:
        trial.setsockopt(socket.IPPROTO_TCP, _CONGESTION, _UNPACED)
        trial.setsockopt(socket.IPPROTO_TCP, _CONGESTION, chosen)
    finally:
        trial.close()
