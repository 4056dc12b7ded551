"""Opens compressed batches of the usual size into memory that is used again: the first choice of a leader.

Fresh memory for a megabyte takes as long as to open it by lz4. What is opened here is what `compression`
opens, but for whatever is unusual (several frames, more than `OPENER_BYTES`, anything damaged): that is None,
and left to `compression`, which says what is wrong.
"""

import struct
from types import TracebackType
from typing import Final

import zstandard

from ottla.logstore.compression import (
    CRAMJAM,
    MAX_BLOCKS,
    MAX_ZSTD_WINDOW_BYTES,
    Compression,
    check_zstd_is_whole,
    codec_library,
    decompress,
    snappy_block_bytes,
    snappy_blocks,
)
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.varint import ByteSource

OPENER_BYTES: Final = 2 * 1024 * 1024
# What is larger than this opens into more than OPENER_BYTES mostly.
_MOST_RECEIVED_BYTES: Final = 1024 * 1024 + 64 * 1024
_LZ4_MAGIC: Final = 0x184D2204
_WORD: Final = struct.Struct("<I")
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_HAS_CHECKSUM: Final = 0x04
_LZ4_HAS_BLOCK_CHECKSUMS: Final = 0x10
_LZ4_HAS_DICTIONARY: Final = 0x01
_LZ4_STORED: Final = 0x8000_0000


class Opener:
    """Memory and a context for one batch at a time; borrowed as a context manager."""

    __slots__ = ("_memory", "_zstd")

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(OPENER_BYTES))
        self._zstd = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES)

    def open(self, compression: Compression, records: ByteSource, max_bytes: int) -> ByteSource | None:
        """Return the records, which stay until the opener opens again; None for `compression` to judge."""
        if len(records) > _MOST_RECEIVED_BYTES:
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
        check_zstd_is_whole(records)
        stream = self._zstd.stream_reader(records, read_across_frames=True)
        total = 0
        while total < len(room) and (read_bytes := stream.readinto(room[total:])):
            total += read_bytes
        if total == len(room) and stream.read(1):
            return None
        return room[:total]


def _open_lz4(records: ByteSource, room: memoryview) -> memoryview | None:
    if not _is_one_lz4_frame(records):
        return None
    library = codec_library(CRAMJAM, Compression.LZ4)
    try:
        return room[: library.lz4.decompress_into(records, room)]
    except library.DecompressionError:
        return None


def _is_one_lz4_frame(records: ByteSource) -> bool:
    """Tell whether a frame ends where `records` end: what follows one is opened here, and by no reader."""
    if len(records) < 7 or _WORD.unpack_from(records)[0] != _LZ4_MAGIC:
        return False
    flags = records[4]
    if flags & _LZ4_HAS_DICTIONARY:
        return False
    position = 15 if flags & _LZ4_HAS_SIZE else 7
    behind_block = 4 if flags & _LZ4_HAS_BLOCK_CHECKSUMS else 0
    for _ in range(MAX_BLOCKS):
        if position + 4 > len(records):
            return False
        (size,) = _WORD.unpack_from(records, position)
        position += 4
        if not size:
            return position + (4 if flags & _LZ4_HAS_CHECKSUM else 0) == len(records)
        position += (size & ~_LZ4_STORED) + behind_block
    return False


def _open_snappy(records: ByteSource, room: memoryview) -> memoryview | None:
    library = codec_library(CRAMJAM, Compression.SNAPPY)
    total = 0
    try:
        for block in snappy_blocks(memoryview(records)):
            if snappy_block_bytes(block) > len(room) - total:
                return None
            total += library.snappy.decompress_raw_into(block, room[total:])
    except library.DecompressionError:
        return None
    return room[:total]


# Those that nobody uses: as many as batches were opened at once.
_idle: list[Opener] = []


class BorrowedOpener:
    """An opener for the time of a `with`; what it opened must not be used afterwards."""

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
