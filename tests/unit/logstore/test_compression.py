"""The five compressions: data of other writers, and decompression bombs."""

import gzip
import sys
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.logstore.compression import Compression, compress, decompress, missing_codecs
from ottla.logstore.words.errors import ErrorCode, KafkaError

CONTENTS = [b"", b"a", b"abc" * 1000, bytes(range(256)) * 400, bytes(300_000)]
COMPRESSED = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("content", CONTENTS)
def test_compressed_data_is_decompressed_unchanged(compression: Compression, content: bytes) -> None:
    assert decompress(compression, memoryview(compress(compression, content))) == content


@pytest.mark.parametrize(
    ("compression", "data"),
    [
        (Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"hello" * 50))),  # librdkafka, franz-go
        (Compression.SNAPPY, compress(Compression.SNAPPY, b"hello" * 50)),  # xerial, the Java clients
        (Compression.SNAPPY, compress(Compression.SNAPPY, b"hello" * 25) * 2),
        (Compression.LZ4, lz4.frame.compress(b"hello" * 50, block_linked=True, content_checksum=True)),
        (Compression.LZ4, lz4.frame.compress(b"hello" * 50, store_size=True)),
        (Compression.ZSTD, zstandard.compress(b"hello" * 25) + zstandard.compress(b"hello" * 25)),
        (Compression.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(b"hello" * 50)),
        (Compression.GZIP, gzip.compress(b"hello" * 25) + gzip.compress(b"hello" * 25)),
        (Compression.GZIP, gzip.compress(b"hello" * 50) + bytes(7)),
    ],
    ids=[
        "snappy raw",
        "snappy",
        "snappy streams",
        "lz4 linked",
        "lz4 sized",
        "zstd frames",
        "zstd checked",
        "gzip members",
        "gzip padded",
    ],
)
def test_the_data_of_other_writers_is_decompressed(compression: Compression, data: bytes) -> None:
    assert decompress(compression, data) == b"hello" * 50


def test_snappy_has_the_frames_of_xerials_java_library() -> None:
    data = compress(Compression.SNAPPY, bytes(40_000))

    assert data[:16] == b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
    first = int.from_bytes(data[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(data[20 : 20 + first])) == bytes(32 * 1024)


def test_lz4_blocks_are_independent_because_kafkas_java_reader_rejects_linked_ones() -> None:
    info = lz4.frame.get_frame_info(compress(Compression.LZ4, bytes(200_000)))

    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024


def test_a_second_stream_of_snappy_that_is_cut_off_is_rejected() -> None:
    with pytest.raises(KafkaError) as refused:
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"hello") + b"\x82SNAPPY\x00\x00\x00")

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_bomb_is_rejected_at_the_limit(compression: Compression) -> None:
    data = compress(compression, bytes(2_000_000))

    assert len(decompress(compression, data, max_bytes=2_000_000)) == 2_000_000
    with pytest.raises(KafkaError) as refused:
        decompress(compression, data, max_bytes=1_999_999)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff\x0f" + bytes(10),  # raw snappy that claims 4 GiB
        b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x00\x00\x00\x06" + b"\xff\xff\xff\xff\x0f\x00",
        b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x7f\xff\xff\xff",
    ],
)
def test_a_size_claimed_in_a_header_allocates_nothing(frame: bytes) -> None:
    with pytest.raises(KafkaError):
        decompress(Compression.SNAPPY, frame)


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("content", [b"abc" * 1000, bytes(range(256)) * 40])
def test_data_cut_off_anywhere_is_corrupt(compression: Compression, content: bytes) -> None:
    data = compress(compression, content)

    for length in {*range(0, len(data), max(1, len(data) // 40)), len(data) - 1}:
        try:
            opened = decompress(compression, data[:length])
        except KafkaError as refused:
            assert refused.code is ErrorCode.CORRUPT_MESSAGE, length
        else:  # A framed snappy stream that is cut between frames is a shorter stream: it has no end mark.
            assert compression is Compression.SNAPPY
            assert content.startswith(bytes(opened))
    with pytest.raises(KafkaError):
        decompress(compression, b"\x00\x01garbage")


def test_gzip_levels_are_honoured() -> None:
    content = bytes(range(256)) * 100

    assert len(compress(Compression.GZIP, content, 9)) <= len(compress(Compression.GZIP, content, 1))
    assert zlib.decompress(compress(Compression.GZIP, content, 1), 31) == content


@pytest.mark.parametrize(
    ("compression", "package"), [(Compression.LZ4, "lz4.frame"), (Compression.SNAPPY, "cramjam")]
)
def test_without_its_package_a_compression_is_unsupported(
    compression: Compression, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = compress(compression, b"hello" * 50)
    monkeypatch.setitem(sys.modules, package, None)

    for work in (lambda: decompress(compression, data), lambda: compress(compression, b"hello")):
        with pytest.raises(KafkaError) as refused:
            work()
        assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert f"needs the package {package.partition('.')[0]}" in refused.value.detail


def test_codecs_without_their_packages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = missing_codecs()
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    monkeypatch.setitem(sys.modules, "cramjam", None)

    assert missing_codecs() == (Compression.SNAPPY, Compression.LZ4)
    assert before == ()


@pytest.mark.parametrize(
    ("compression", "piece"),
    [
        (Compression.GZIP, gzip.compress(b"")),
        (Compression.ZSTD, zstandard.compress(b"")),
        (Compression.ZSTD, b"\x50\x2a\x4d\x18\0\0\0\0"),  # a skippable frame
    ],
    ids=["gzip", "zstd", "zstd skipped"],
)
def test_too_many_empty_pieces_are_rejected(compression: Compression, piece: bytes) -> None:
    whole = compress(compression, b"hello")

    assert decompress(compression, piece * 900 + whole) == b"hello"
    with pytest.raises(KafkaError) as refused:
        decompress(compression, piece * 20_000 + whole)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert "too many pieces" in refused.value.detail


def test_a_zstd_frame_of_empty_blocks_is_rejected() -> None:
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + b"\0\0\0" * 20_000 + b"\x01\0\0"

    with pytest.raises(KafkaError, match="too many pieces"):
        decompress(Compression.ZSTD, frame)


def test_a_snappy_stream_of_single_bytes_is_rejected() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"x"))
    framed = len(block).to_bytes(4, "big") + block
    head = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2

    assert decompress(Compression.SNAPPY, head + framed * 100) == b"x" * 100
    with pytest.raises(KafkaError, match="too many pieces"):
        decompress(Compression.SNAPPY, head + framed * 20_000)


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("size", [100_000, 262_144, 2_097_151, 2_097_152, 2_097_153, 5_000_000])
def test_data_larger_than_one_read_is_decompressed_completely(compression: Compression, size: int) -> None:
    content = bytes(range(251)) * (size // 251) + bytes(size % 251)
    data = compress(compression, content)

    assert decompress(compression, data) == content
    assert decompress(compression, memoryview(bytearray(data)), max_bytes=size) == content
    with pytest.raises(KafkaError):
        decompress(compression, data, max_bytes=size - 1)


def test_a_rejected_frame_does_not_affect_the_next_one() -> None:
    good, bad = (
        compress(Compression.ZSTD, b"hello" * 9),
        bytearray(compress(Compression.ZSTD, bytes(range(250)) * 4)),
    )
    bad[-20:-8] = bytes(12)

    for _ in range(3):
        with pytest.raises(KafkaError):
            decompress(Compression.ZSTD, bytes(bad[:-4]))
        assert decompress(Compression.ZSTD, good) == b"hello" * 9
