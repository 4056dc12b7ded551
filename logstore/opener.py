"""Decompresses batches of the usual size into memory that is reused; a leader tries this first.

Allocating a megabyte takes as long as decompressing it by lz4. An opener returns the same records as
`compression`, or None for anything unusual: several lz4 frames, very many blocks, more than `OPENER_BYTES`,
or damage. Then `compression` decides what is wrong.
"""

from types import TracebackType
from typing import Final

import zstandard

from ottla.logstore.compression import (
    CRAMJAM,
    MAX_ZSTD_WINDOW_BYTES,
    Compression,
    check_zstd_is_whole,
    codec_library,
    decompress,
    lz4_frame_end,
    snappy_block_bytes,
    snappy_blocks,
)
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.varint import ByteSource

OPENER_BYTES: Final = 2 * 1024 * 1024
# Larger batches are not tried: most of them decompress into more than OPENER_BYTES.
_MOST_RECEIVED_BYTES: Final = 1024 * 1024 + 64 * 1024


class Opener:
    """Memory and a zstd context for one batch at a time; see `BorrowedOpener`."""

    __slots__ = ("_memory", "_zstd")

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(OPENER_BYTES))
        self._zstd = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES)

    def open(self, compression: Compression, records: ByteSource, max_bytes: int) -> ByteSource | None:
        """Return the records, valid until the next call, or None if `compression` must open the batch."""
        if max_bytes <= 0 or len(records) > _MOST_RECEIVED_BYTES:
            return None
        room = self._memory[: min(max_bytes, OPENER_BYTES)]
        try:
            if compression is Compression.LZ4:
                return _open_lz4(records, room)
            if compression is Compression.SNAPPY:
                return _open_snappy(records, room)
            if compression is Compression.ZSTD:
                return self._open_zstd(records, room)
            return decompress(compression, records, max_bytes=len(room))
        except (KafkaError, zstandard.ZstdError):
            return None

    def _open_zstd(self, records: ByteSource, room: memoryview) -> memoryview | None:
        check_zstd_is_whole(records, most=_most_blocks(records))
        stream = self._zstd.stream_reader(records, read_across_frames=True)
        total = 0
        while total < len(room) and (read_bytes := stream.readinto(room[total:])):
            total += read_bytes
        if total == len(room) and stream.read(1):
            return None
        return room[:total]


def _open_lz4(records: ByteSource, room: memoryview) -> memoryview | None:
    # cramjam also opens the frames that follow, which readers of a batch ignore.
    if lz4_frame_end(records, _most_blocks(records)) != len(records):
        return None
    library = codec_library(CRAMJAM, Compression.LZ4)
    try:
        return room[: library.lz4.decompress_into(records, room)]
    except library.DecompressionError:
        return None


def _open_snappy(records: ByteSource, room: memoryview) -> memoryview | None:
    library = codec_library(CRAMJAM, Compression.SNAPPY)
    total = 0
    try:
        for block in snappy_blocks(memoryview(records), _most_blocks(records)):
            if snappy_block_bytes(block) > len(room) - total:
                return None
            total += library.snappy.decompress_raw_into(block, room[total:])
    except library.DecompressionError:
        return None
    return room[:total]


def _most_blocks(records: ByteSource) -> int:
    """Return the limit on blocks: each costs a microsecond, and those of clients have 32 KiB."""
    return 16 + len(records) // 1024


# Openers that are not in use; at most as many are made as batches are opened at one time.
_idle: list[Opener] = []


class BorrowedOpener:
    """A context manager that lends an opener; the records that it opened are invalid after the `with`."""

    __slots__ = ("_opener",)

    def __enter__(self) -> Opener:
        try:
            self._opener = _idle.pop()
        except IndexError:
            self._opener = Opener()
        return self._opener

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _idle.append(self._opener)
