"""The decompressed records of a batch, a piece at a time: 4 kB may decompress into 100 MiB of records.

`content` holds the bytes that were decompressed and not consumed yet. A reader consumes whole records, moves
`position` to the first record that is not whole, and calls `more`. So the memory is that of one piece, or of
one record if that is larger, and a reader that stops early has decompressed no more than it read. `pause` is
called before each further piece and may raise.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ottla.logstore.compression import (
    MAX_DECOMPRESSED_BYTES,
    MAX_ZSTD_WINDOW_BYTES,
    Compression,
    decompress_pieces,
)
from ottla.logstore.pure_record_walk import LENGTH, LONG_MIN, VALID
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from ottla.logstore.record_walk import IS_COMPILED, describe_problem, find
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import MAX_VARINT_BYTES, ByteSource, read_varint

FOUND_AT_ONCE: Final = 64 * 1024  # records between two pauses of a walk: a millisecond
SKIPPED_AT_ONCE: Final = 256


def NO_PAUSE() -> None:
    """Continue at once; the default of `pause`."""


class OpenedRecords:
    """The records of one batch, decompressed as they are read."""

    __slots__ = ("_pause", "_pieces", "_room_bytes", "content", "position")

    def __init__(
        self,
        compression: Compression,
        records: ByteSource,
        *,
        max_bytes: int = MAX_DECOMPRESSED_BYTES,
        max_window_bytes: int = MAX_ZSTD_WINDOW_BYTES,
        pause: Callable[[], None] = NO_PAUSE,
    ) -> None:
        self._pause = pause
        self._room_bytes = max(max_bytes, len(records) if compression is Compression.NONE else 0)
        self._pieces = decompress_pieces(
            compression, records, max_bytes=max_bytes, max_window_bytes=max_window_bytes
        )
        content = next(self._pieces, b"")
        # The walk in Python would copy any other buffer at each call.
        self.content: ByteSource = content if IS_COMPILED else bytes(content)
        self.position = 0
        self._room_bytes -= len(self.content)

    def more(self) -> bool:
        """Decompress until the record at `position` is whole; return False if the batch ends before.

        The content before the record is dropped, so `position` becomes 0.
        """
        held = len(self.content) - self.position
        needed = self._needed_bytes(held)
        if needed <= held or needed - held > self._room_bytes:
            return False
        parts: list[ByteSource] = [memoryview(self.content)[self.position :]]
        while held < needed:
            self._pause()
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece)
            held += len(piece)
            self._room_bytes -= len(piece)
        if len(parts) == 1:
            return False
        self.content, self.position = b"".join(parts), 0
        return True

    def is_at_end(self) -> bool:
        """Return True if no byte is left after `position`; decompress the next record to find out."""
        return self.position == len(self.content) and not self.more()

    def left_bytes(self) -> int:
        """Return the number of bytes of the content after `position`."""
        return len(self.content) - self.position

    def _needed_bytes(self, held: int) -> int:
        try:
            length, end = read_varint(self.content, self.position)
        except KafkaError:
            # The length is cut off, or is not a varint.
            return held + 1 if held < MAX_VARINT_BYTES else held
        return end - self.position + length


def open_records(
    header: BatchHeader,
    batch: ByteSource,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    max_window_bytes: int = MAX_ZSTD_WINDOW_BYTES,
    pause: Callable[[], None] = NO_PAUSE,
) -> OpenedRecords:
    """Return the records of a batch; CORRUPT_MESSAGE if it is not whole."""
    if not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= len(batch) - LOG_OVERHEAD:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The header of a batch of {len(batch)} bytes gives a size of {header.size_bytes} bytes.",
        )
    records = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    return OpenedRecords(
        header.compression, records, max_bytes=max_bytes, max_window_bytes=max_window_bytes, pause=pause
    )


def find_record(
    opened: OpenedRecords,
    index: int,
    count: int,
    *,
    base_timestamp: int,
    timestamp: int = LONG_MIN,
    offset_delta: int = 0,
    pause: Callable[[], None] = NO_PAUSE,
) -> tuple[int, int, int]:
    """Find the next record from `index` on with at least this timestamp and this offset delta.

    Return the index after the record, its offset delta (-1 if there is none) and its timestamp.
    INVALID_RECORD if there are fewer than `count` records.
    """
    while index < count:
        index, delta, found_ms = _step(
            opened, index, count, FOUND_AT_ONCE, base_timestamp, timestamp, offset_delta
        )
        if delta >= 0:
            return index, delta, found_ms
        pause()
    return index, -1, 0


def skip_records(opened: OpenedRecords, index: int, count: int, offset_delta: int) -> Iterator[int]:
    """Skip records before the first one with at least this offset delta; yield the index reached so far.

    A yield is a pause. The last index is at most `SKIPPED_AT_ONCE` records before that record, and at most
    `count`.
    """
    walked = 0
    while index < count:
        content, position = opened.content, opened.position
        after, delta, _ = _step(opened, index, count, SKIPPED_AT_ONCE, 0, LONG_MIN, offset_delta)
        if delta >= 0:
            opened.content, opened.position = content, position
            break
        walked += after - index
        index = after
        if walked >= FOUND_AT_ONCE or opened.content is not content:
            walked = 0
            yield index
    yield index


def _step(
    opened: OpenedRecords,
    index: int,
    count: int,
    max_records: int,
    base_timestamp: int,
    timestamp: int,
    offset_delta: int,
) -> tuple[int, int, int]:
    """Walk over some records; decompress more if the next one is not whole."""
    problem, index, opened.position, delta, found_ms = find(
        opened.content, opened.position, index, count, max_records, base_timestamp, timestamp, offset_delta
    )
    if problem != VALID and not (problem == LENGTH and opened.more()):
        raise KafkaError(ErrorCode.INVALID_RECORD, describe_problem(problem, index))
    return index, delta, found_ms
