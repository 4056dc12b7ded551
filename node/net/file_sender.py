"""Answers whose records lie in files: past the transport, from the page cache to the socket.

The promise: bytes leave in their order, nothing waits for a disk on the event loop, and what is not sent yet
takes no memory but for one chunk that had to be read. It may be used only while the transport has nothing to
send, and the transport must not be written to until `send` has said True or `finished` was called.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from logstore.disk import FileRecords
from logstore.schema import Buffer

Piece = Buffer | FileRecords

CHUNK_BYTES = 1024 * 1024  # One system call; a cold one is read into memory.
# Of one connection, before others get their turn: 4 MiB are about 1 ms.
MAX_BYTES_PER_TURN = 4 * 1024 * 1024
# The kernel's buffer, in times of `socket.send.buffer.bytes`: what it holds of a file is no copy. With the
# defaults an answer of one partition (`max.partition.fetch.bytes`) leaves at once, and the loop is not woken
# for the rest; the kernel has its own limit, net.core.wmem_max.
SEND_BUFFERS = 6
# But no more than that by ourselves: a peer that reads slowly keeps its buffer full.
MAX_RAISED_BYTES = 640 * 1024


class FileSender:
    """Sends to one socket, through a descriptor of its own: the loop lets nobody wait on a transport's."""

    __slots__ = (
        "_failed",
        "_finished",
        "_loop",
        "_pieces",
        "_socket",
        "_start_task",
        "_waits",
    )

    def __init__(
        self,
        descriptor: int,
        *,
        send_buffer_bytes: int,
        loop: asyncio.AbstractEventLoop,
        start_task: Callable[[Coroutine[Any, Any, Any]], Any],
        finished: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """`descriptor` is a duplicate of the connection's, and from now on the sender's.

        With `send_buffer_bytes` below 1 the kernel lets the buffer grow to megabytes.
        """
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        if send_buffer_bytes > 0:
            raised = min(SEND_BUFFERS * send_buffer_bytes, MAX_RAISED_BYTES)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(send_buffer_bytes, raised))
        self._loop = loop
        self._start_task = start_task
        self._finished = finished
        self._failed = failed
        self._pieces: deque[Piece] = deque()
        self._waits = False  # for the socket to take more

    @property
    def is_sending(self) -> bool:
        return bool(self._pieces)

    def send(self, pieces: list[Piece]) -> bool:
        """Whether all is sent; if not, the rest follows and `finished` or `failed` is called, once.

        OSError when the peer is gone or the file has become shorter.
        """
        assert not self._pieces, "one answer after the other"
        self._pieces += filter(len, pieces)
        try:
            self._send_some()
        except OSError:
            self._pieces.clear()
            raise
        return not self._pieces

    def close(self) -> None:
        """Forget what is not sent. Until then the peer does not see that the transport was closed."""
        self._pieces.clear()
        self._stop_waiting()
        self._socket.close()

    def _send_some(self) -> None:
        """Send what the socket takes; what then is left waits for the socket or for the disk."""
        pieces, left_bytes = self._pieces, MAX_BYTES_PER_TURN
        try:
            while pieces:
                piece = pieces[0]
                if isinstance(piece, FileRecords):
                    if left_bytes <= 0:
                        break
                    asked = min(piece.size, CHUNK_BYTES)
                    if not piece.file.can_send(piece.position, asked):
                        self._read_cold(piece, asked)
                        return
                    count = piece.file.send_to(self._socket.fileno(), piece.position, asked)
                    if count == 0:
                        raise OSError("its log was cut while it was sent")
                else:
                    asked = len(piece)
                    # More follows at once: a packet for the 60 bytes before the records would wake the peer.
                    count = self._socket.send(piece, socket.MSG_MORE if len(pieces) > 1 else 0)
                left_bytes -= count
                if count == len(piece):
                    pieces.popleft()
                elif isinstance(piece, FileRecords):
                    pieces[0] = piece.after(count)
                else:
                    pieces[0] = memoryview(piece)[count:]
                if count < asked:
                    # To try again at once would send each bit that the peer has just made room for: it would
                    # be woken for each, and read slower.
                    break
        except BlockingIOError:
            pass
        if pieces:
            self._wait()

    def _wait(self) -> None:
        if not self._waits:
            self._waits = True
            self._loop.add_writer(self._socket.fileno(), self._resume)

    def _stop_waiting(self) -> None:
        if self._waits:
            self._waits = False
            self._loop.remove_writer(self._socket.fileno())

    def _resume(self) -> None:
        try:
            self._send_some()
        except OSError as error:
            self._give_up(error)
            return
        if not self._pieces:
            self._stop_waiting()
            self._finished()

    def _give_up(self, error: OSError) -> None:
        self._pieces.clear()
        self._stop_waiting()
        self._failed(f"an answer could not be sent: {error}")

    def _read_cold(self, records: FileRecords, size: int) -> None:
        """The peer or another disk was slow, and memory went to others: a thread asks the disk."""
        self._stop_waiting()
        self._start_task(self._replace_cold(FileRecords(records.file, records.position, size)))

    async def _replace_cold(self, cold: FileRecords) -> None:
        try:
            content = await asyncio.to_thread(cold.read)
        except OSError as error:
            if self._pieces:
                self._give_up(error)
            return
        if not self._pieces:
            return  # closed meanwhile
        piece = self._pieces.popleft()
        assert isinstance(piece, FileRecords)
        if piece.size > cold.size:
            self._pieces.appendleft(piece.after(cold.size))
        self._pieces.appendleft(content)
        self._wait()
