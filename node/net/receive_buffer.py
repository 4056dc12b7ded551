"""The bytes that a connection has received and not yet served, in one buffer. Frames are found in place.

The promise: a buffer holds no more than about twice the bytes that really arrived, or five times its last
frame while memory is plentiful; all of it is counted by `ReceiveMemory`. Only `make_room`, `give_back`,
`grow` and `shrink` move or overwrite received bytes: until one of them is called, memoryviews of a frame stay
valid.

The owner is the connection: it reads into `view[end:limit]` and advances `end`, finds frames with
`frame_end`, and advances `start` past the served frames.
"""

import mmap
from struct import Struct

from ottla.node.net.receive_memory import ReceiveMemory

INITIAL_BUFFER_BYTES = 8 * 1024  # a few small requests; 5,000 idle clients cost 40 MB
# From this size on a read stops at the end of a frame, so that the next one starts at the buffer's start.
LARGE_FRAME_BYTES = 32 * 1024
# If a peer sends faster than it is read, one read takes as much as clients have in flight by default
# (max.in.flight.requests.per.connection): this many frames of the last one's size, up to this many bytes.
READ_AHEAD_FRAMES = 5
READ_AHEAD_BYTES = 512 * 1024
# For a larger frame, addresses are reserved for the whole of it at once, and memory is taken page by page as
# it arrives: zeroing a buffer, and copying it repeatedly as it grows, took 200 ms of the loop for 100 MB.
MAPPED_BYTES = 4 << 20
SIZE_BYTES = 4  # of the length before each frame
INVALID_LENGTH = -1  # the result of `frame_end` for a length that no frame has
_size_at = Struct(">i").unpack_from


class ReceiveBuffer:
    """The receive buffer of one connection."""

    __slots__ = (
        "_memory",
        "end",
        "frame_bytes",
        "last_frame_bytes",
        "limit",
        "mapped",
        "max_frame_bytes",
        "peak_bytes",
        "start",
        "view",
    )

    def __init__(self, memory: ReceiveMemory, max_frame_bytes: int) -> None:
        """The buffer is counted by `memory` from `open` on."""
        self._memory = memory
        self.max_frame_bytes = max_frame_bytes
        self.view = memoryview(bytearray(INITIAL_BUFFER_BYTES))
        self.mapped: mmap.mmap | None = None  # the memory of a large frame; the view is its start
        self.start = 0  # of the bytes not yet served
        self.end = 0  # of the received bytes
        self.limit = INITIAL_BUFFER_BYTES  # of the next read
        self.frame_bytes = 0  # of the half-received frame, with its length prefix; 0 if not known
        self.last_frame_bytes = 0  # of the last frame served, with its length prefix
        self.peak_bytes = 0  # the most bytes held since the last call of `shrink`

    def open(self) -> None:
        """Count the memory that a connection starts with."""
        self._memory.take(len(self.view))

    def close(self, owner: object) -> None:
        """Give all memory back, and end the owner's wait or debt for it."""
        self._memory.release(len(self.view))
        self._memory.settle(owner)

    # ---- frames ------------------------------------------------------------------------------------

    def frame_end(self, start: int) -> int:
        """Return the end of the frame at `start`; 0 if it is not whole, or `INVALID_LENGTH`.

        If its length is received, but not all of it, `frame_bytes` is set to its size.
        """
        end = self.end
        if end - start < SIZE_BYTES:
            return 0
        (size_bytes,) = _size_at(self.view, start)
        if not 0 <= size_bytes <= self.max_frame_bytes:
            return INVALID_LENGTH
        stop: int = start + SIZE_BYTES + size_bytes
        if stop <= end:
            return stop
        self.frame_bytes = SIZE_BYTES + size_bytes
        return 0

    @property
    def has_whole_frame(self) -> bool:
        """Return True if the buffer has a whole frame, or one whose length is negative."""
        received = self.end - self.start
        if received < SIZE_BYTES:
            return False
        return received >= SIZE_BYTES + int(_size_at(self.view, self.start)[0])

    # ---- room --------------------------------------------------------------------------------------

    def keep(self) -> bool:
        """Leave all received bytes in place; return True if there is room behind them."""
        self.limit = len(self.view)
        return self.end < self.limit

    def make_room(self, owner: object) -> int:
        """Make room for the next read, and for the half-received frame to end within the buffer.

        Nothing may point into the buffer. Returns 0, or the size to which the buffer has to `grow` first.
        """
        start, end, capacity, memory = self.start, self.end, len(self.view), self._memory
        if start == end and capacity == INITIAL_BUFFER_BYTES and end != self.limit:
            if start and memory.owner_in_debt is owner:
                memory.settle(owner)
            self.start = self.end = 0
            self.limit = capacity
            return 0
        received = end - start
        if capacity > INITIAL_BUFFER_BYTES and memory.is_scarce and start:
            # A frame was served: its memory goes to others, and the next frame reserves its own.
            self._replace(max(INITIAL_BUFFER_BYTES, received), owner)
        elif not received and end == self.limit:
            self._read_ahead(owner)
        if memory.owner_in_debt is owner and self.start:
            memory.settle(owner)  # its frame was served, and there is enough memory now
        capacity = len(self.view)
        if not received:
            self.start = self.end = 0
            self.limit = capacity
            return 0
        if self.start and self.start + max(self.frame_bytes, SIZE_BYTES) > capacity:
            # The frame would end beyond the buffer: move the received part to the front.
            self.view[:received] = self.view[self.start : self.end]
            self.start, self.end = 0, received
        if self.end == capacity:
            # At most twice the buffer, which is full: bytes that are announced but not sent take no memory.
            return min(2 * received, self.frame_bytes)
        self._set_limit()
        return 0

    def grow(self, size_bytes: int) -> None:
        """Grow to the size that `make_room` returned, once the owner has reserved it from the memory."""
        # Both buffers exist during the copy, and the old one for as long as a waiting request uses it.
        self._memory.release(len(self.view))
        self._exchange(size_bytes)
        self._set_limit()

    def give_back(self, owner: object) -> None:
        """Give back the memory of served frames, and keep the bytes behind them."""
        needed_bytes = max(INITIAL_BUFFER_BYTES, self.end - self.start)
        if needed_bytes < len(self.view):
            self._replace(needed_bytes, owner)

    def shrink(self, owner: object, *, is_in_use: bool) -> None:
        """Give back memory that was not needed since the last call, unless something points into it."""
        peak_bytes, self.peak_bytes = self.peak_bytes, 0
        target_bytes = max(INITIAL_BUFFER_BYTES, peak_bytes)
        if self.start == self.end and not is_in_use and target_bytes * 4 <= len(self.view):
            self._replace(target_bytes, owner)

    def _set_limit(self) -> None:
        room = len(self.view) - self.start
        if LARGE_FRAME_BYTES <= self.frame_bytes < room:
            room -= room % self.frame_bytes
        self.limit = self.start + room

    def _read_ahead(self, owner: object) -> None:
        """Enlarge the buffer after a read that filled it: the next read takes what a client has in flight."""
        frames = min(READ_AHEAD_FRAMES, READ_AHEAD_BYTES // self.last_frame_bytes)
        size_bytes = frames * self.last_frame_bytes
        if size_bytes > len(self.view) and self._memory.is_plentiful:
            self._replace(size_bytes, owner)

    def _replace(self, size_bytes: int, owner: object) -> None:
        memory = self._memory
        memory.take(size_bytes)
        memory.release(len(self.view))
        memory.settle(owner)
        self._exchange(size_bytes)
        self._set_limit()

    def _exchange(self, size_bytes: int) -> None:
        if self.mapped is not None and self.start == 0 and len(self.view) < size_bytes <= len(self.mapped):
            self.view = memoryview(self.mapped)[:size_bytes]
            return
        received = self.end - self.start
        self.mapped = _memory_for(self.frame_bytes) if size_bytes > MAPPED_BYTES else None
        if self.mapped is not None and size_bytes <= len(self.mapped):
            view = memoryview(self.mapped)[:size_bytes]
        else:
            self.mapped, view = None, memoryview(bytearray(size_bytes))
        view[:received] = self.view[self.start : self.end]
        self.view = view
        self.start, self.end = 0, received


def _memory_for(frame_bytes: int) -> mmap.mmap | None:
    """Return mapped memory, which costs nothing before it is used; None if there is no frame."""
    if not frame_bytes:
        return None
    return mmap.mmap(-1, frame_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
