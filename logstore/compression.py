"""The five compressions of a record batch, each decompressed with a bound on the size of the result.

Two framings need care. Snappy arrives raw (librdkafka, franz-go) or in the frames of xerial's Java library
(magic 0x82 'SNAPPY' 0); both are read, and the second is written, as Kafka's own clients write it. LZ4 has
its standard frame, but Kafka's Java reader rejects linked blocks, so we write independent blocks of 64 KiB.

A batch of a kilobyte can claim to decompress into terabytes. Nothing here allocates memory by a size in a
header: the output grows as it is decompressed, and a batch whose output exceeds `max_bytes` is rejected. So
is a batch of more pieces (blocks, frames, members of gzip) than any client makes, because each costs time
even if it is empty.

The packages for lz4 and snappy are loaded when a batch needs them. If one has been uninstalled, opening such
records raises UNSUPPORTED_COMPRESSION_TYPE; batches that need not be opened are still stored.
"""

import importlib
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

import zstandard

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource

# A batch may not open into more than the largest request could have carried without compression
# (`socket.request.max.bytes`, 100 MiB).
MAX_DECOMPRESSED_BYTES: Final = 100 * 1024 * 1024
# A zstd frame names a window of output that the reader must keep. Kafka's Java reader accepts up to 128 MiB.
MAX_ZSTD_WINDOW_BYTES: Final = 128 * 1024 * 1024

# Clients make blocks of 32 KiB and more, and one frame or member.
MAX_BLOCKS: Final = 16 * 1024
MAX_GZIP_MEMBERS: Final = 1_000
PIECE_BYTES: Final = 256 * 1024  # of decompressed records; takes a millisecond at most

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")  # magic, version, oldest compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024  # the size that xerial's own writer uses
_BLOCK_LENGTH = struct.Struct(">i")
_READ_BYTES = 256 * 1024
_GZIP_PIECE_BYTES = 64 * 1024
_WORD = struct.Struct("<I")
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
_ZSTD_MAX_HEADER_BYTES = 18
_LZ4_MAGIC = 0x184D2204
_LZ4_STORED = 0x8000_0000
_LZ4_INDEPENDENT = 0x20
_LZ4_HAS_BLOCK_CHECKSUMS = 0x10
_LZ4_HAS_SIZE = 0x08
_LZ4_HAS_CHECKSUM = 0x04
_LZ4_NOT_OF_KAFKA = 0x03  # a dictionary, and a reserved bit


# Contexts for reuse: making one takes as long as decompressing 16 KiB. A context that has decompressed more
# than one piece keeps the memory for it, so it is dropped.
_idle_zstd: list[zstandard.ZstdDecompressor] = []


class Compression(IntEnum):
    """The compression of a batch's records: bits 0 to 2 of the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Kafka's defaults of compression.gzip.level, compression.lz4.level and compression.zstd.level.
DEFAULT_LEVELS: Final = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}


_LZ4_LIBRARY: Final = "lz4.frame"
CRAMJAM: Final = "cramjam"


def missing_codecs() -> tuple[Compression, ...]:
    """Return the compressions that this process lacks because their packages are not installed. May block."""
    missing = []
    for compression, name in ((Compression.SNAPPY, CRAMJAM), (Compression.LZ4, _LZ4_LIBRARY)):
        try:
            codec_library(name, compression)
        except KafkaError:
            missing.append(compression)
    return tuple(missing)


def codec_library(name: str, compression: Compression) -> Any:
    """Return the package that implements a compression; load it at first use.

    UNSUPPORTED_COMPRESSION_TYPE if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"The codec {compression.name.lower()} needs the package {name.partition('.')[0]}, which is not "
            f"installed: run `pip install {name.partition('.')[0]}`.",
        ) from None


def compress(compression: Compression, records: ByteSource, level: int | None = None) -> bytes:
    """Return `records` compressed in the format of Kafka's own clients.

    `level` is as in compression.*.level, None for Kafka's default.
    """
    if compression is Compression.NONE:
        return bytes(records)
    if level is None:
        level = DEFAULT_LEVELS.get(compression, 0)
    if compression is Compression.GZIP:
        compressor = zlib.compressobj(level, zlib.DEFLATED, 31)
        return compressor.compress(records) + compressor.flush()
    if compression is Compression.SNAPPY:
        return _compress_xerial(records)
    if compression is Compression.LZ4:
        frame = codec_library(_LZ4_LIBRARY, compression)
        return bytes(
            frame.compress(
                bytes(records),
                compression_level=_lz4_level(level),
                block_size=frame.BLOCKSIZE_MAX64KB,
                block_linked=False,
                store_size=False,
            )
        )
    return zstandard.ZstdCompressor(level=level).compress(records)


def compress_pieces(
    compression: Compression,
    pieces: Iterable[ByteSource],
    level: int | None = None,
    *,
    max_bytes: int = sys.maxsize,
) -> bytearray:
    """Return all pieces compressed as one, holding one piece at a time in memory.

    MESSAGE_TOO_LARGE as soon as the result exceeds `max_bytes`.
    """
    written = bytearray()
    for part in _closed_parts(compression, pieces, level):
        written += part
        if len(written) > max_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The records take more than {max_bytes} bytes after compression by "
                f"{compression.name.lower()}.",
            )
    return written


def _closed_parts(
    compression: Compression, pieces: Iterable[ByteSource], level: int | None
) -> Iterator[ByteSource]:
    if level is None:
        level = DEFAULT_LEVELS.get(compression, 0)
    if compression is Compression.NONE:
        yield from pieces
    elif compression is Compression.GZIP:
        gzip = zlib.compressobj(level, zlib.DEFLATED, 31)
        yield from map(gzip.compress, pieces)
        yield gzip.flush()
    elif compression is Compression.SNAPPY:
        yield _XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)
        for piece in pieces:
            yield memoryview(_compress_xerial(piece))[_XERIAL_HEADER.size :]
    elif compression is Compression.LZ4:
        library = codec_library(_LZ4_LIBRARY, compression)
        frame = library.LZ4FrameCompressor(
            compression_level=_lz4_level(level),
            block_size=library.BLOCKSIZE_MAX64KB,
            block_linked=False,
            auto_flush=True,
        )
        yield frame.begin()
        for piece in pieces:
            yield frame.compress(bytes(piece))
        yield frame.flush()
    else:
        stream = zstandard.ZstdCompressor(level=level).compressobj()
        yield from map(stream.compress, pieces)
        yield stream.flush()


def _lz4_level(level: int) -> int:
    """Return the level of the LZ4 library for one of Kafka's.

    Kafka's level 9, the default, selects the fast encoder, any other the high-compression encoder.
    """
    return 0 if level == DEFAULT_LEVELS[Compression.LZ4] else level


def decompress(
    compression: Compression, data: ByteSource, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> ByteSource:
    """Return the decompressed `data`.

    CORRUPT_MESSAGE if `data` is not in the format of `compression`; MESSAGE_TOO_LARGE if the result exceeds
    `max_bytes` (a producer then splits the batch). Without compression, `data` itself is returned, of any
    size.
    """
    try:
        if compression is Compression.NONE:
            return data
        if compression is Compression.GZIP:
            return _decompress_gzip(data, max_bytes)
        if compression is Compression.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        if compression is Compression.LZ4:
            return _decompress_lz4(data, max_bytes)
        return _decompress_zstd(data, max_bytes)
    except (zlib.error, RuntimeError, EOFError, zstandard.ZstdError) as error:
        # lz4 reports every malformed frame as RuntimeError or EOFError.
        raise _invalid(compression, error) from None


def _invalid(compression: Compression, error: Exception) -> KafkaError:
    problem = f"The records are not valid {compression.name.lower()}: {error}."
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, problem)


def _too_large(max_bytes: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The records take more than {max_bytes} bytes when they are decompressed.",
    )


def _cut_off(compression: Compression) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"The {compression.name.lower()} data of a batch is cut off."
    )


def _too_many_pieces(compression: Compression) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"The {compression.name.lower()} data of a batch has too many pieces."
    )


def _decompress_gzip(data: ByteSource, max_bytes: int) -> bytes:
    view = memoryview(data)
    chunks: list[bytes] = []
    room, position = max_bytes + 1, 0
    for _ in range(MAX_GZIP_MEMBERS):  # A gzip stream is a sequence of members.
        member = zlib.decompressobj(31)
        while not member.eof:
            # A piece at a time, because zlib copies the input behind the end of a member.
            piece = view[position : position + _GZIP_PIECE_BYTES]
            if not piece:
                raise _cut_off(Compression.GZIP)
            chunk = member.decompress(piece, room)
            room -= len(chunk)
            if room <= 0:
                raise _too_large(max_bytes)
            chunks.append(chunk)
            position += len(piece)
        position -= len(member.unused_data)
        if bytes(view[position : position + 2]) != b"\x1f\x8b":
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    raise _too_many_pieces(Compression.GZIP)


def _decompress_lz4(data: ByteSource, max_bytes: int) -> bytes:
    frame = codec_library(_LZ4_LIBRARY, Compression.LZ4).LZ4FrameDecompressor()
    # The library allocates the largest output that it is allowed, so the limit grows with the output so far.
    step = min(max_bytes + 1, max(_READ_BYTES, 4 * len(data)))
    output: bytes = frame.decompress(data, step)
    if not frame.eof:
        chunks, total = [output], len(output)
        while not frame.eof and total <= max_bytes:
            if frame.needs_input:
                raise _cut_off(Compression.LZ4)
            chunks.append(frame.decompress(b"", min(max_bytes + 1 - total, total + step)))
            total += len(chunks[-1])
        output = b"".join(chunks)
    if len(output) > max_bytes:
        raise _too_large(max_bytes)
    return output


def lz4_frame_end(data: ByteSource, most: int = MAX_BLOCKS) -> int:
    """Return the position at which the first frame ends.

    CORRUPT_MESSAGE if it is cut off, has more than `most` blocks, or cannot be read by Kafka's Java reader,
    which supports neither linked blocks nor dictionaries, and takes an empty block for the end.
    """
    if len(data) < 7 or _WORD.unpack_from(data)[0] != _LZ4_MAGIC:
        raise _cut_off(Compression.LZ4)
    flags = data[4]
    if not flags & _LZ4_INDEPENDENT or flags & _LZ4_NOT_OF_KAFKA:
        raise _invalid(Compression.LZ4, ValueError("its blocks are linked, or need a dictionary"))
    position = 15 if flags & _LZ4_HAS_SIZE else 7
    behind_block = 4 if flags & _LZ4_HAS_BLOCK_CHECKSUMS else 0
    for _ in range(most):
        if position + 4 > len(data):
            raise _cut_off(Compression.LZ4)
        (size,) = _WORD.unpack_from(data, position)
        position += 4
        if not size:
            return position + (4 if flags & _LZ4_HAS_CHECKSUM else 0)
        if size in (_LZ4_STORED, 1):
            raise _invalid(Compression.LZ4, ValueError("a block has no bytes"))
        position += (size & ~_LZ4_STORED) + behind_block
    raise _too_many_pieces(Compression.LZ4)


def _decompress_zstd(data: ByteSource, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    room = max_bytes
    for chunk in _zstd_pieces(data, min(PIECE_BYTES, max_bytes + 1)):
        chunks.append(chunk)
        room -= len(chunk)
        if room < 0:
            raise _too_large(max_bytes)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _largest_zstd_window(data: ByteSource) -> int:
    starts: list[int] = []
    check_zstd_is_whole(data, starts)
    heads = (bytes(data[start : start + _ZSTD_MAX_HEADER_BYTES]) for start in starts)
    return max((zstandard.get_frame_parameters(head).window_size for head in heads), default=0)


def check_zstd_is_whole(data: ByteSource, starts: list[int] | None = None, most: int = MAX_BLOCKS) -> None:
    """Raise CORRUPT_MESSAGE if a frame is cut off, or if there are more than `most` frames and blocks.

    This walks over the block headers (RFC 8878), because the library's stream reader takes a frame that is
    cut off for a short one. The positions of the frames are appended to `starts`.
    """
    position = pieces = 0
    while position < len(data) or position == 0:
        pieces += 1
        (magic,) = _WORD.unpack_from(data, position) if len(data) - position >= 4 else (0,)
        if pieces > most:
            raise _too_many_pieces(Compression.ZSTD)
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC and len(data) - position >= 8:
            position += 8 + _WORD.unpack_from(data, position + 4)[0]
            continue
        if starts is not None:
            starts.append(position)
        has_checksum = position + 4 < len(data) and data[position + 4] & 0x04
        position += zstandard.frame_header_size(bytes(data[position : position + _ZSTD_MAX_HEADER_BYTES]))
        is_last = False
        while not is_last:
            header = int.from_bytes(data[position : position + 3], "little")
            is_last = bool(header & 1)
            is_one_repeated_byte = header >> 1 & 3 == 1
            position += 3 + (1 if is_one_repeated_byte else header >> 3)
            pieces += 1
            if position > len(data):
                raise _cut_off(Compression.ZSTD)
            if pieces > most:
                raise _too_many_pieces(Compression.ZSTD)
        position += 4 if has_checksum else 0
    if position > len(data):
        raise _cut_off(Compression.ZSTD)


def _compress_xerial(records: ByteSource) -> bytes:
    snappy = codec_library(CRAMJAM, Compression.SNAPPY).snappy
    view = memoryview(records)
    parts = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: ByteSource, max_bytes: int) -> bytes:
    opened: list[bytes] = []
    room = max_bytes
    for block in snappy_blocks(memoryview(data)):
        opened.append(_open_snappy_block(block, room, max_bytes))
        room -= len(opened[-1])
    return opened[0] if len(opened) == 1 else b"".join(opened)


def snappy_blocks(view: memoryview, most: int = MAX_BLOCKS) -> Iterator[memoryview]:
    """Yield the blocks of either framing; CORRUPT_MESSAGE if one is cut off or there are more than `most`."""
    if view[:8] != _XERIAL_MAGIC:
        yield view
        return
    position = _XERIAL_HEADER.size
    for _ in range(most):
        if position == len(view):
            return
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:  # another stream
            position += _XERIAL_HEADER.size
            if position > len(view):
                raise _cut_off(Compression.SNAPPY)
            continue
        if len(view) - position < _BLOCK_LENGTH.size:
            raise _cut_off(Compression.SNAPPY)
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise _cut_off(Compression.SNAPPY)
        yield view[position : position + length]
        position += length
    raise _too_many_pieces(Compression.SNAPPY)


def _open_snappy_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    library = codec_library(CRAMJAM, Compression.SNAPPY)
    try:
        if snappy_block_bytes(block) > room:
            raise _too_large(max_bytes)
        return bytes(library.snappy.decompress_raw(block))
    except library.DecompressionError as error:
        raise _invalid(Compression.SNAPPY, error) from None


def snappy_block_bytes(block: memoryview) -> int:
    """Return the decompressed size that a block claims; CORRUPT_MESSAGE if it is impossible.

    cramjam.DecompressionError if the block has no valid size.
    """
    size: int = codec_library(CRAMJAM, Compression.SNAPPY).snappy.decompress_raw_len(block)
    if size > 32 * len(block) + 64:  # Snappy encodes at most 64 bytes in 3.
        raise _cut_off(Compression.SNAPPY)
    return size


def decompress_pieces(
    compression: Compression,
    data: ByteSource,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    piece_bytes: int = PIECE_BYTES,
    max_window_bytes: int = MAX_ZSTD_WINDOW_BYTES,
) -> Iterator[ByteSource]:
    """Yield the decompressed data in pieces, each decompressed when it is requested.

    An error is raised at the piece in which it is found. A piece has at most `piece_bytes`; for snappy it is
    a block, and without compression all the data, of any size. MESSAGE_TOO_LARGE also if zstd must keep a
    window of more than `max_window_bytes`, which stays in memory until the last piece is read.
    """
    if compression is Compression.NONE:
        yield data
        return
    pieces = _PIECES[compression](data, piece_bytes)
    room, is_window_known = max_bytes, False
    while True:
        try:
            piece = next(pieces, None)
        except (zlib.error, RuntimeError, EOFError, zstandard.ZstdError) as error:
            raise _invalid(compression, error) from None
        if piece is None:
            return
        room -= len(piece)
        if room < 0:
            raise _too_large(max_bytes)
        if max_bytes - room > max_window_bytes and not is_window_known:
            is_window_known = True
            if compression is Compression.ZSTD and _largest_zstd_window(data) > max_window_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"The batch cannot be decompressed: its window is larger than {max_window_bytes} bytes.",
                )
        if piece:
            yield piece


def _gzip_pieces(data: ByteSource, piece_bytes: int) -> Iterator[bytes]:
    view, position = memoryview(data), 0
    for _ in range(MAX_GZIP_MEMBERS):
        member = zlib.decompressobj(31)
        waiting: ByteSource = b""
        while not member.eof:
            if not waiting:
                waiting = view[position : position + _GZIP_PIECE_BYTES]
                position += len(waiting)
            is_at_end = not waiting
            piece = member.decompress(waiting, piece_bytes)
            waiting = member.unconsumed_tail
            if is_at_end and not piece and not member.eof:
                raise _cut_off(Compression.GZIP)
            yield piece
        position -= len(member.unused_data)
        if bytes(view[position : position + 2]) != b"\x1f\x8b":
            return
    raise _too_many_pieces(Compression.GZIP)


def _lz4_pieces(data: ByteSource, piece_bytes: int) -> Iterator[bytes]:
    frame = codec_library(_LZ4_LIBRARY, Compression.LZ4).LZ4FrameDecompressor()
    view, position = memoryview(data), 0
    while not frame.eof:
        # A piece at a time, because the library copies the input that it has not read yet.
        waiting: ByteSource = b""
        if frame.needs_input:
            waiting = view[position : position + _GZIP_PIECE_BYTES]
            position += len(waiting)
            if not waiting:
                raise _cut_off(Compression.LZ4)
        yield frame.decompress(waiting, piece_bytes)


def _zstd_pieces(data: ByteSource, piece_bytes: int) -> Iterator[bytes]:
    check_zstd_is_whole(data)
    try:
        opener = _idle_zstd.pop()
    except IndexError:
        opener = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES)
    stream = opener.stream_reader(data, read_across_frames=True)
    piece = stream.read(piece_bytes)
    if len(piece) < piece_bytes:  # the only piece
        _idle_zstd.append(opener)
    while piece:
        yield piece
        piece = b"" if len(piece) < piece_bytes else stream.read(piece_bytes)


def _snappy_pieces(data: ByteSource, piece_bytes: int) -> Iterator[bytes]:
    for block in snappy_blocks(memoryview(data)):
        yield _open_snappy_block(block, MAX_DECOMPRESSED_BYTES, MAX_DECOMPRESSED_BYTES)


_PIECES: Final[Mapping[Compression, Callable[[ByteSource, int], Iterator[bytes]]]] = {
    Compression.GZIP: _gzip_pieces,
    Compression.SNAPPY: _snappy_pieces,
    Compression.LZ4: _lz4_pieces,
    Compression.ZSTD: _zstd_pieces,
}
