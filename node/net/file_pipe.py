"""A pipe between files and sockets: it moves pages of the page cache without copying them.

`sendfile` from a file to a socket contains such a pipe of 64 KiB, and writes to the socket for each 64 KiB.
Through this pipe a response of a megabyte is sent at once, together with its header, for two thirds of the
CPU. The promise: it is empty between two turns of the loop, so all connections of a listener can share it.
"""

import errno
import fcntl
import os
from contextlib import suppress
from typing import Final

from ottla.logstore.disk import FileRecords
from ottla.logstore.words.schema import Buffer

Piece = Buffer | FileRecords

CAPACITY_BYTES: Final = 1024 * 1024  # the default of /proc/sys/fs/pipe-max-size
MIN_CAPACITY_BYTES: Final = 64 * 1024  # the size of the pipe within `sendfile`
_SPLICE_F_MOVE, _SPLICE_F_NONBLOCK, _SPLICE_F_MORE = 1, 2, 4


def _widened(pipe: int) -> int:
    """Enlarge a pipe as far as the kernel allows; return its capacity."""
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, CAPACITY_BYTES)
    capacity = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    if capacity < MIN_CAPACITY_BYTES:  # it is two pages for a user beyond pipe-user-pages-soft
        raise OSError(errno.ENFILE, "this user has too many open pipes")
    return capacity


class FilePipe:
    """A pipe that is filled with pieces of a response, then emptied into a socket."""

    def __init__(self) -> None:
        """Open the pipe; OSError if too many files are open, or if the user's pipes would make it tiny."""
        self.size_bytes = 0  # held at present
        self._dev_null = -1
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self.capacity_bytes = _widened(self._write_end)
            self._dev_null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the pipe. It takes nothing afterwards: its descriptors may soon belong to other files."""
        for descriptor in (self._read_end, self._write_end, self._dev_null):
            if descriptor >= 0:
                os.close(descriptor)
        self._read_end = self._write_end = self._dev_null = -1

    def put(self, piece: Piece, size: int) -> int:
        """Take bytes from the start of a piece; return how many it took, 0 if the pipe is full.

        Of records in a file it takes at most `size`; OSError if the file ends where they start.
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
        """Send the content to a socket; return how many bytes the socket took. The rest is dropped.

        `is_more`: more follows at once, so the kernel need not send a packet that is not full.
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
        """Drop the content."""
        held, self.size_bytes = self.size_bytes, 0
        self._drop(held)

    def _drop(self, size: int) -> None:
        while size:
            size -= os.splice(self._read_end, self._dev_null, size)
