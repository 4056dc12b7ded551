"""A pipe on the way from files to sockets: it takes pages of the page cache and gives them on, uncopied.

`sendfile` from a file to a socket has such a pipe inside, of 64 KiB, and goes to the socket for each 64 KiB.
Through this one an answer of a megabyte goes at once, with the header before it, for two thirds of the CPU.
The promise: between two turns of the loop it is empty, so that all connections of a listener share it.
"""

import errno
import fcntl
import os
from contextlib import suppress
from typing import Final

from ottla.logstore.disk import FileRecords
from ottla.logstore.words.schema import Buffer

Piece = Buffer | FileRecords

CAPACITY_BYTES: Final = 1024 * 1024  # /proc/sys/fs/pipe-max-size, as far as the kernel goes unasked
MIN_CAPACITY_BYTES: Final = 64 * 1024  # as of the one inside `sendfile`
_SPLICE_F_MOVE, _SPLICE_F_NONBLOCK, _SPLICE_F_MORE = 1, 2, 4


def _widened(pipe: int) -> int:
    """Its capacity, as large as it may be."""
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, CAPACITY_BYTES)
    capacity = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    if capacity < MIN_CAPACITY_BYTES:  # of a user beyond pipe-user-pages-soft it is two pages
        raise OSError(errno.ENFILE, "this user has too many open pipes")
    return capacity


class FilePipe:
    """Filled with pieces of an answer, then emptied into a socket."""

    def __init__(self) -> None:
        """OSError if too many files are open, or the user has so many pipes that this one would be tiny."""
        self.size_bytes = 0  # of what it holds
        self._nowhere = -1
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self.capacity_bytes = _widened(self._write_end)
            self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """It takes nothing afterwards: its numbers may soon be those of other files."""
        for descriptor in (self._read_end, self._write_end, self._nowhere):
            if descriptor >= 0:
                os.close(descriptor)
        self._read_end = self._write_end = self._nowhere = -1

    def put(self, piece: Piece, size: int) -> int:
        """Take so much from the start of a piece; how much it took, 0 where it is full.

        OSError where a file ends before that.
        """
        try:
            if isinstance(piece, FileRecords):
                count = piece.file.send_to(self._write_end, piece.position, size)
                if count == 0:
                    raise OSError("the log was truncated while it was being sent")
            else:
                count = os.write(self._write_end, piece)
        except BlockingIOError:
            return 0
        self.size_bytes += count
        return count

    def empty_into(self, socket_number: int, *, is_more: bool) -> int:
        """Send what it holds; how much the socket took. The rest is dropped.

        `is_more`: some follows at once, so that the kernel need not send a packet that is not full.
        """
        held, self.size_bytes = self.size_bytes, 0
        flags = _SPLICE_F_MOVE | _SPLICE_F_NONBLOCK | (_SPLICE_F_MORE if is_more else 0)
        sent = 0
        try:
            sent = os.splice(self._read_end, socket_number, held, flags=flags)
        except BlockingIOError:
            pass
        finally:
            self._drop(held - sent)
        return sent

    def drop(self) -> None:
        """Forget what it holds."""
        held, self.size_bytes = self.size_bytes, 0
        self._drop(held)

    def _drop(self, size: int) -> None:
        while size:
            size -= os.splice(self._read_end, self._nowhere, size)
