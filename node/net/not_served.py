"""Reasons why a request is not served: bytes that are no request, a client that is gone, work that failed."""

import asyncio
import socket
from collections.abc import Awaitable
from typing import Any, NamedTuple

from ottla.node.wire.framing import foreign_protocol

LOOK_FOR_END_SECONDS = 0.5  # the interval of checks that the client of a waiting request is still there


def no_frame(head: memoryview, *, is_login: bool) -> str:
    """Return the reason why these bytes start no request."""
    frame_bytes = int.from_bytes(head, "big", signed=True)
    foreign = foreign_protocol(head)
    if foreign == "HTTP":
        return "it speaks HTTP to a listener of the Kafka protocol; the REST API has a port of its own"
    if foreign == "TLS":
        return "it speaks TLS to a listener without TLS (PLAINTEXT or SASL_PLAINTEXT)"
    if frame_bytes < 0:
        return f"a frame of {frame_bytes} bytes is impossible"
    if is_login:
        return f"a frame of {frame_bytes} bytes is larger than sasl.server.max.receive.size"
    return f"a frame of {frame_bytes} bytes is larger than socket.request.max.bytes"


def peer_has_ended(transport: asyncio.BaseTransport) -> bool:
    """Return True if the peer has closed its side and everything before that is read.

    A transport that receives ahead of its reader answers this itself; otherwise the socket is checked.
    """
    has_ended = transport.get_extra_info("peer_has_ended")
    if has_ended is not None:
        return bool(has_ended())
    sock = transport.get_extra_info("socket")
    if sock is None:
        return False
    # uvloop's socket object cannot read.
    with socket.fromfd(sock.fileno(), sock.family, sock.type) as same:
        try:
            return not same.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Failure(NamedTuple):
    """The error of a request that ran in a task; a task that raised it would stop the node."""

    error: Exception


async def outcome_of(awaitable: Awaitable[Any]) -> Any:
    """Return the result of a request's work, or the `Failure` that it ended with."""
    try:
        return await awaitable
    except Exception as error:
        return Failure(error)
