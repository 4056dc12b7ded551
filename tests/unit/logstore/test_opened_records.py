"""Batches of some kB that decompress into very much: their cost, in CPU seconds and MiB."""

import gzip
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice

import pytest

from ottla.logstore.compaction import (
    CleaningRound,
    CleaningStats,
    TransactionTracker,
    clean_batch,
    index_batch,
)
from ottla.logstore.compression import (
    MAX_GZIP_MEMBERS,
    PIECE_BYTES,
    Compression,
    compress,
    compress_pieces,
    decompress,
    decompress_pieces,
)
from ottla.logstore.offset_map import OffsetMap
from ottla.logstore.oldest_record import Oldest, first_record
from ottla.logstore.record import (
    Record,
    append_record,
    build_batch,
    iterate_records,
    records_from,
    seal_batch,
)
from ottla.logstore.record_batch import BatchHeader, read_header
from ottla.logstore.record_walk import IS_COMPILED
from ottla.logstore.words.errors import ErrorCode, KafkaError

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
MIB = 1024 * 1024
# In Python a walk takes a hundred times as long, and more while memory is traced: fewer records, more time.
COUNT = 3_000_000 if IS_COMPILED else 800_000
CLEANED = 400_000 if IS_COMPILED else 100_000
TINY = bytes.fromhex("0c000000010100")  # without key and value, at offset delta 0


@contextmanager
def costs_at_most(cpu_s: float, mib: float, pure_cpu_s: float | None = None) -> Iterator[None]:
    """Bound the cost of the body; `pure_cpu_s` is for a walk in Python, if the walk is what costs."""
    if pure_cpu_s is not None and not IS_COMPILED:
        cpu_s = pure_cpu_s
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        used_s, (_, peak_bytes) = time.process_time() - began, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used_s < cpu_s, f"{used_s:.2f} CPU s"
    assert peak_bytes < mib * MIB, f"{peak_bytes / MIB:.1f} MiB"


def many(record: bytes, number: int = COUNT) -> bytes:
    """Return a compressed batch of `number` copies of the same record."""
    header = BatchHeader(0, 0, 0, 2, 0, Compression.ZSTD, number - 1, 1_000, 1_000, -1, -1, -1, number)
    return bytes(seal_batch(header, compress(Compression.ZSTD, record * number)))


@pytest.fixture(scope="module")
def bomb() -> bytes:
    batch = many(TINY)
    assert len(batch) < 4_096
    return batch


def test_the_first_records_of_a_bomb_cost_no_more_than_those_of_any_batch(bomb: bytes) -> None:
    with costs_at_most(cpu_s=0.5, mib=2):
        taken = list(islice(iterate_records(bomb), 100))

    assert len(taken) == 100


def test_a_bomb_is_skipped_with_pauses_and_without_creating_its_records(bomb: bytes) -> None:
    with costs_at_most(cpu_s=2.0, mib=4, pure_cpu_s=20.0):
        found = list(records_from(bomb, COUNT - 1))

    assert len(found) > COUNT * len(TINY) // PIECE_BYTES // 2
    assert set(found) == {None}  # all records have offset delta 0, so there were only pauses


def test_a_timestamp_in_a_bomb_is_looked_up_a_piece_at_a_time(bomb: bytes) -> None:
    with costs_at_most(cpu_s=2.0, mib=4, pure_cpu_s=20.0):
        found = first_record(bomb, read_header(bomb), 0, 2_000)

    assert found is None


def test_a_timestamp_at_the_start_is_found_without_opening_the_rest(bomb: bytes) -> None:
    def never() -> None:
        raise AssertionError("more was opened")

    assert first_record(bomb, read_header(bomb), 0, 500, pause=never) == Oldest(0, 1_000)


class Gone(Exception):
    """The client has disconnected."""


def interruptible(work: Callable[[Callable[[], None]], object]) -> None:
    """Check that `work` stops with the exception that its third pause raises."""
    pauses = count(1)

    def pause() -> None:
        if next(pauses) == 3:
            raise Gone

    with pytest.raises(Gone):
        work(pause)


def test_look_ups_by_time_and_cleaning_can_be_stopped_in_the_middle_of_a_batch(bomb: bytes) -> None:
    header = read_header(bomb)
    interruptible(lambda pause: first_record(bomb, header, 0, 2_000, pause=pause))
    interruptible(lambda pause: note_keys(bomb, pause))
    interruptible(lambda pause: cleaned(bomb, pause=pause))


def note_keys(batch: bytes, pause: Callable[[], None]) -> None:
    index_batch(
        read_header(batch),
        batch,
        start_offset=0,
        offset_map=OffsetMap(buffer_bytes=MIB, load_factor=0.9, expected_keys=10),
        tracker=TransactionTracker(),
        stats=CleaningStats(),
        pause=pause,
    )


def cleaned(
    batch: bytes,
    *,
    pause: Callable[[], None] = lambda: None,
    latest: dict[bytes, int] | None = None,
    latest_offset: int = 2**40,
) -> tuple[bytes | None, CleaningStats]:
    offset_map = OffsetMap(buffer_bytes=MIB, load_factor=0.9, expected_keys=1_000)
    for key, offset in (latest or {}).items():
        offset_map.put(key, offset)
    offset_map.latest_offset = latest_offset
    stats = CleaningStats()
    left = clean_batch(
        read_header(batch),
        batch,
        cleaning=CleaningRound(
            now_ms=10_000,
            delete_retention_ms=1_000,
            offset_map=offset_map,
            end_offset=2**41,
            last_records={},
            pause=pause,
        ),
        tracker=TransactionTracker(),
        stats=stats,
    )
    return None if left is None else bytes(left.content), stats


def test_a_bomb_is_cleaned_in_the_memory_of_a_piece() -> None:
    batch = many(TINY, CLEANED)
    with costs_at_most(cpu_s=10.0, mib=8):
        left, stats = cleaned(batch)

    assert left is None
    assert stats.records_without_key == CLEANED


def test_very_many_tombstones_get_their_horizon_in_the_memory_of_a_piece() -> None:
    batch = many(bytes.fromhex("0e000000026b0100"), CLEANED // 2)
    with costs_at_most(cpu_s=10.0, mib=8):
        left, _ = cleaned(batch, latest={b"k": 0})

    assert left is not None
    assert read_header(left).delete_horizon_ms == 11_000
    assert read_header(left).records_count == CLEANED // 2
    first = next(iterate_records(left))
    assert (first.timestamp, first.key) == (1_000, b"k")


@pytest.mark.parametrize("compression", [Compression.NONE, *CODECS])
@pytest.mark.parametrize("number", [50, 3_000, 25_000])
def test_large_and_small_batches_are_cleaned_alike(compression: Compression, number: int) -> None:
    records = [
        Record(index, 1_000 + index, b"%d" % (index % 10), None if index % 7 == 1 else b"v" * 50)
        for index in range(number)
    ]
    batch = bytes(build_batch(records, compression=compression))
    latest = {b"%d" % key: number // 2 for key in range(0, 10, 2)}

    left, _ = cleaned(batch, latest=latest, latest_offset=number - 2)

    assert left is not None
    kept = [one for one in records if one.offset >= latest.get(one.key or b"", 0) or one.offset == number - 1]
    assert list(iterate_records(left)) == kept
    assert read_header(left).max_timestamp == kept[-1].timestamp


# ---- pieces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [Compression.NONE, *CODECS])
@pytest.mark.parametrize("size", [0, 1, 1_000, 300_000, 1_500_000])
def test_the_pieces_in_order_are_the_whole(compression: Compression, size: int) -> None:
    content = random.Random(size).randbytes(size // 2) + b"\0" * (size - size // 2)
    closed = compress(compression, content)

    pieces = [bytes(piece) for piece in decompress_pieces(compression, closed)]

    assert b"".join(pieces) == content == bytes(decompress(compression, closed))
    if compression is not Compression.NONE:
        assert all(0 < len(piece) <= 256 * 1024 for piece in pieces)
    parts = [content[start : start + 100_000] for start in range(0, size, 100_000)]
    assert bytes(decompress(compression, bytes(compress_pieces(compression, parts)))) == content


@pytest.mark.parametrize("compression", CODECS)
def test_pieces_of_data_that_is_cut_off_or_too_large_are_rejected(compression: Compression) -> None:
    closed = compress(compression, random.Random(1).randbytes(200_000) + b"\0" * 600_000)

    with pytest.raises(KafkaError) as refusal:
        list(decompress_pieces(compression, closed[:-9]))
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError) as refusal:
        list(decompress_pieces(compression, closed, max_bytes=700_000))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def empty_members(count: int) -> bytes:
    return gzip.compress(b"", mtime=0) * count


def empty_frames(count: int) -> bytes:
    return b"\x50\x2a\x4d\x18\0\0\0\0" * count  # skippable frames


def empty_blocks(count: int) -> bytes:
    return compress(Compression.ZSTD, b"")[:-3] + b"\0\0\0" * count + b"\1\0\0"


def empty_streams(count: int) -> bytes:
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" * count


@pytest.mark.parametrize(
    ("compression", "hostile"),
    [
        (Compression.GZIP, empty_members(125_000)),
        (Compression.ZSTD, empty_frames(500_000)),
        (Compression.ZSTD, empty_blocks(1_000_000)),
        (Compression.SNAPPY, empty_streams(200_000)),
        (Compression.LZ4, compress(Compression.LZ4, b"x")[:-8] * 100_000),
    ],
    ids=["gzip members", "skippable frames of zstd", "blocks of zstd", "streams of snappy", "frames of lz4"],
)
def test_empty_pieces_are_counted(compression: Compression, hostile: bytes) -> None:
    with costs_at_most(cpu_s=1.0, mib=8):
        with pytest.raises(KafkaError):
            list(decompress_pieces(compression, hostile))
        with pytest.raises(KafkaError):
            decompress(compression, hostile)


def test_the_maximum_number_of_members_is_opened() -> None:
    closed = gzip.compress(b"x" * 10, mtime=0) * (MAX_GZIP_MEMBERS - 1)

    assert b"".join(map(bytes, decompress_pieces(Compression.GZIP, closed))) == b"x" * 10 * (
        MAX_GZIP_MEMBERS - 1
    )


# ---- records across the end of a piece -----------------------------------------------------------


@pytest.mark.parametrize("compression", CODECS)
def test_a_record_larger_than_a_piece_is_read_whole(compression: Compression) -> None:
    records = [
        Record(index, 5, b"k", bytes([index]) * size) for index, size in enumerate((10, 700_000, 9, 300_000))
    ]
    batch = build_batch(records, compression=compression)

    assert list(iterate_records(batch)) == records
    for offset in range(5):
        assert [one for one in records_from(batch, offset) if one is not None] == records[offset:]


def test_reading_can_begin_at_any_offset_even_after_gaps_of_compaction() -> None:
    records = [Record(offset, 5, None, b"v") for offset in range(0, 40_000, 3)]
    batch = build_batch(records, compression=Compression.LZ4, last_offset=50_000)

    for offset in (0, 1, 3, 768, 769, 20_000, 39_999, 45_000):
        found = [one for one in records_from(batch, offset) if one is not None]
        assert found == [one for one in records if one.offset >= offset]


def test_a_record_that_claims_too_many_bytes_is_rejected_without_opening_everything() -> None:
    content = b"\xfe\xff\xff\xff\x0f" + b"\0" * (50 * MIB)
    header = BatchHeader(0, 0, 0, 2, 0, Compression.ZSTD, 0, 0, 0, -1, -1, -1, 1)
    batch = seal_batch(header, compress(Compression.ZSTD, content))

    with costs_at_most(cpu_s=0.5, mib=2), pytest.raises(KafkaError) as refusal:
        list(iterate_records(batch))

    assert refusal.value.code is ErrorCode.INVALID_RECORD


def test_too_many_headers_are_not_turned_into_objects() -> None:
    record = bytearray()
    append_record(
        record, timestamp_delta=0, offset_delta=0, key=None, value=None, headers=[("", None)] * 20_000
    )
    batch = seal_batch(BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1), record)

    with costs_at_most(cpu_s=0.5, mib=2), pytest.raises(KafkaError, match="20000 headers"):
        list(iterate_records(batch))


def test_a_batch_with_a_false_base_offset_is_read_without_an_overflow() -> None:
    batch = build_batch([(b"k", b"v", 1, ())] * 3)
    batch[:8] = (-(2**63)).to_bytes(8, signed=True)

    assert [one for one in records_from(batch, 5) if one is not None] == []
