"""Batches that an opener decompresses into its memory, and those that it leaves to `compression`."""

import gzip

import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.logstore.compression import Compression, compress
from ottla.logstore.opener import OPENER_BYTES, BorrowedOpener, Opener

COMPRESSED = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
WORDS = b"hello " * 20_000


def opened(compression: Compression, data: bytes, max_bytes: int = OPENER_BYTES) -> bytes | None:
    with BorrowedOpener() as opener:
        content = opener.open(compression, data, max_bytes)
        return None if content is None else bytes(content)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_compressed_data_is_decompressed_unchanged(compression: Compression) -> None:
    for content in (b"a", WORDS, bytes(range(256)) * 3):
        assert opened(compression, compress(compression, content)) == content


@pytest.mark.parametrize(
    ("compression", "data"),
    [
        (Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(WORDS))),
        (Compression.LZ4, lz4.frame.compress(WORDS, block_linked=False, content_checksum=True)),
        (Compression.LZ4, lz4.frame.compress(WORDS, block_linked=False, block_checksum=True)),
        (Compression.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(WORDS)),
        (Compression.GZIP, gzip.compress(WORDS)),
    ],
)
def test_the_data_of_other_writers_is_opened(compression: Compression, data: bytes) -> None:
    assert opened(compression, data) == WORDS


@pytest.mark.parametrize("compression", COMPRESSED)
def test_batches_above_the_limit_are_left_to_compression(compression: Compression) -> None:
    data = compress(compression, WORDS)

    assert opened(compression, data, len(WORDS)) == WORDS
    assert opened(compression, data, len(WORDS) - 1) is None
    assert opened(compression, compress(compression, bytes(OPENER_BYTES + 1))) is None


@pytest.mark.parametrize("compression", COMPRESSED)
def test_damaged_batches_are_left_to_compression(compression: Compression) -> None:
    data = compress(compression, WORDS)

    for damaged in (b"", b"zzzz" * 9, data[:-5], data[: len(data) // 2]):
        assert opened(compression, damaged) is None


@pytest.mark.parametrize(
    "data",
    [
        compress(Compression.LZ4, WORDS) * 2,
        compress(Compression.LZ4, WORDS) + b"behind",
        b"\x50\x2a\x4d\x18\x04\0\0\0skip" + compress(Compression.LZ4, WORDS),
        lz4.frame.compress(WORDS, block_linked=False, content_checksum=True)[:-1] + b"\0",
    ],
    ids=["two frames", "something behind", "a frame to be skipped", "a wrong checksum"],
)
def test_only_a_single_valid_lz4_frame_is_opened(data: bytes) -> None:
    """The library also opens further frames, which no reader of a batch does."""
    assert opened(Compression.LZ4, data) is None


def test_very_many_blocks_are_left_to_compression() -> None:
    """Each block takes a microsecond, even if it is empty, and an event loop may be waiting."""
    header = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
    empty = b"\x00\x00\x00\x01\x00"

    assert opened(Compression.SNAPPY, header + empty * 10) == b""
    assert opened(Compression.SNAPPY, header + empty * 1_000) is None


def test_memory_is_reused() -> None:
    with BorrowedOpener() as first, BorrowedOpener() as second:
        assert first is not second
    with BorrowedOpener() as again:
        assert again in (first, second)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_an_opener_works_after_a_batch_that_failed(compression: Compression) -> None:
    opener, data = Opener(), compress(compression, WORDS)

    assert opener.open(compression, data[: len(data) // 2], OPENER_BYTES) is None
    content = opener.open(compression, data, OPENER_BYTES)
    assert content is not None and bytes(content) == WORDS
