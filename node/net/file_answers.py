"""The responses of a connection whose records lie in files, sent past its transport if possible.

A transport with TLS reads the files itself. Otherwise, if the transport still has unsent bytes, or too few
file descriptors are left for a sender of its own, the records are read here and written to the transport.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol, cast

from ottla.logstore.disk import FileRecords
from ottla.logstore.words.schema import Buffer
from ottla.node.handing_over import StartTask
from ottla.node.net.file_pipe import FilePipe, Piece
from ottla.node.net.file_sender import FileSender
from ottla.node.net.send_buffers import SendBuffers


class FileHost(Protocol):
    """The listener of a connection, by the members that file responses need."""

    send_buffers: SendBuffers
    loop: asyncio.AbstractEventLoop
    start_task: StartTask
    file_limit: int  # file descriptors from this number on are left to the logs

    def open_pipe(self) -> FilePipe: ...


class FileAnswers:
    """The file responses of one connection."""

    __slots__ = ("_failed", "_file_number", "_finished", "_host", "_is_encrypted", "_sender", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        file_number: int,
        host: FileHost,
        *,
        finished: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """`file_number` is the descriptor of the connection's socket, -1 if there is none."""
        self._transport = transport
        self._file_number = file_number
        self._host = host
        self._finished = finished
        self._failed = failed
        self._is_encrypted = transport.get_extra_info("sslcontext") is not None
        self._sender: FileSender | None = None

    @property
    def is_sending(self) -> bool:
        """Return True while the transport must not be written to, since a file is not fully sent."""
        return self._sender is not None and self._sender.is_sending

    def send(self, pieces: list[Piece]) -> bool:
        """Send a response; return True if all of it was sent or given to the transport.

        Otherwise `finished` or `failed` is called later, once. If the peer is gone or a file has become
        shorter, `failed` is called at once, and the result is True.
        """
        if self._sender is None and not self._is_encrypted:
            self._sender = self._open_sender()
        try:
            if self._is_encrypted:
                self._transport.writelines(cast("list[Buffer]", pieces))
            elif self._sender is not None and not self._transport.get_write_buffer_size():
                return self._sender.send(pieces)
            else:
                self._transport.writelines(
                    [piece.read() if isinstance(piece, FileRecords) else piece for piece in pieces]
                )
        except OSError as error:
            self._failed(f"a response could not be sent: {error}")
        return True

    def close(self) -> None:
        """Drop everything that is not sent."""
        if self._sender is not None:
            self._sender.close()

    def _open_sender(self) -> FileSender | None:
        if self._file_number < 0:
            return None
        try:
            pipe, descriptor = self._host.open_pipe(), os.dup(self._file_number)
        except OSError:
            return None
        if descriptor >= self._host.file_limit:
            os.close(descriptor)
            return None
        return FileSender(
            descriptor,
            pipe=pipe,
            buffers=self._host.send_buffers,
            loop=self._host.loop,
            start_task=self._host.start_task,
            finished=self._finished,
            failed=self._failed,
        )
