"""Sends responses whose records lie in files past the transport, from the page cache to the socket.

The promise: bytes are sent in their order, the event loop never waits for a disk, and unsent bytes take no
memory except for one chunk that had to be read. It may be used only while the transport has nothing to send,
and the transport must not be written to until `send` has returned True or `finished` was called.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from ottla.logstore.disk import FileRecords
from ottla.logstore.words.schema import Buffer
from ottla.node.handing_over import StartTask
from ottla.node.net.file_pipe import CAPACITY_BYTES, FilePipe, Piece
from ottla.node.net.send_buffers import SendBuffers

LARGE_BUFFER_BYTES = 64 * 1024
CHUNK_BYTES = CAPACITY_BYTES  # sent at once; one that is not in the page cache is read into memory
# Of one connection, before others get their turn: 4 MiB are about 1 ms.
MAX_BYTES_PER_TURN = 4 * 1024 * 1024


class FileSender:
    """Sends to one socket through a descriptor of its own: the loop allows no writer on a transport's."""

    __slots__ = (
        "_buffer_bytes",
        "_buffers",
        "_failed",
        "_finished",
        "_loop",
        "_pieces",
        "_pipe",
        "_socket",
        "_start_task",
        "_waits",
    )

    def __init__(
        self,
        descriptor: int,
        *,
        pipe: FilePipe,
        buffers: SendBuffers,
        loop: asyncio.AbstractEventLoop,
        start_task: StartTask,
        finished: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """`descriptor` is a duplicate of the connection's, and owned by the sender from now on."""
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._buffers, self._buffer_bytes = buffers, buffers.take()
        if self._buffer_bytes > 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._buffer_bytes)
        self._pipe = pipe
        self._loop = loop
        self._start_task = start_task
        self._finished = finished
        self._failed = failed
        self._pieces: deque[Piece] = deque()
        self._waits = False  # True while the loop watches the socket for room

    @property
    def is_sending(self) -> bool:
        return bool(self._pieces)

    def send(self, pieces: list[Piece]) -> bool:
        """Send a response; return True if all is sent, otherwise call `finished` or `failed` later, once.

        OSError if the peer is gone or a file has become shorter.
        """
        assert not self._pieces, "the previous response is not fully sent"
        self._pieces += filter(len, pieces)
        try:
            self._send_some()
        except OSError:
            self._pieces.clear()
            raise
        return not self._pieces

    def close(self) -> None:
        """Drop everything unsent. Until then the peer does not see that the transport was closed."""
        self._pieces.clear()
        self._stop_waiting()
        self._socket.close()
        self._buffers.give_back(self._buffer_bytes)

    def _send_some(self) -> None:
        """Send as much as the socket takes; the rest waits for the socket or the disk."""
        left_bytes = MAX_BYTES_PER_TURN
        while self._pieces:
            first = self._pieces[0]
            if left_bytes <= 0 and isinstance(first, FileRecords):
                break
            if not isinstance(first, FileRecords) and len(first) >= LARGE_BUFFER_BYTES:
                wanted_bytes, count = len(first), self._send_large(first)
            else:
                wanted_bytes, is_all = self._fill_pipe(left_bytes)
                if not wanted_bytes:
                    self._read_cold()
                    return
                count = self._pipe.empty_into(self._socket.fileno(), is_more=not is_all)
            left_bytes -= count
            self._forget(count)
            if count < wanted_bytes:
                # Trying again at once would send each bit of room that the peer has just made: the peer would
                # be woken for each, and read more slowly.
                break
        if self._pieces:
            self._wait()

    def _send_large(self, piece: Buffer) -> int:
        """Send bytes that are in memory, without the pipe; return how many the socket took."""
        try:
            return self._socket.send(piece, socket.MSG_MORE if len(self._pieces) > 1 else 0)
        except BlockingIOError:
            return 0

    def _fill_pipe(self, limit_bytes: int) -> tuple[int, bool]:
        """Fill the pipe; return how many bytes it holds, and True if that is all there is to send.

        No records are put in beyond `limit_bytes`. The pipe stays empty if the first piece must be read from
        disk.
        """
        assert not self._pipe.size_bytes, "the pipe still holds bytes for another peer"
        try:
            is_all = self._put_pieces(limit_bytes)
        except BaseException:
            self._pipe.drop()
            raise
        return self._pipe.size_bytes, is_all

    def _put_pieces(self, limit_bytes: int) -> bool:
        pipe = self._pipe
        for piece in self._pieces:
            size = len(piece)
            if isinstance(piece, FileRecords):
                if pipe.size_bytes >= limit_bytes:
                    return False
                size = min(size, CHUNK_BYTES)
                if not piece.file.can_send(piece.position, size):
                    return False
            if pipe.put(piece, size) < len(piece):
                return False
        return True

    def _forget(self, count: int) -> None:
        """Remove the first `count` bytes from the pieces: they are sent."""
        pieces = self._pieces
        while count:
            piece = pieces[0]
            if count >= len(piece):
                count -= len(piece)
                pieces.popleft()
            else:
                pieces[0] = (
                    piece.after(count) if isinstance(piece, FileRecords) else memoryview(piece)[count:]
                )
                count = 0

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
        self._failed(f"a response could not be sent: {error}")

    def _read_cold(self) -> None:
        """Read the first piece in a thread: the peer or a disk was slow, and it left the page cache."""
        self._stop_waiting()
        records = self._pieces[0]
        assert isinstance(records, FileRecords)
        size = min(records.size, CHUNK_BYTES)
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
