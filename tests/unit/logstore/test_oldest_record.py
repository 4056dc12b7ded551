"""The oldest record at or after an offset, in the bytes of batches."""

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.oldest_record import Oldest, oldest_record
from ottla.logstore.record import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
    iterate_records,
    seal_batch,
)
from ottla.logstore.record_batch import TimestampType, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError


def batches() -> bytes:
    """Return batches: offsets 10 to 12 at times 100 to 102, a marker at 13, offset 14 at time 200."""
    first = build_batch([(None, b"x", 100 + n, ()) for n in range(3)], base_offset=10)
    commit = EndTransactionMarker(ControlType.COMMIT, 0)
    marker = build_marker(commit, producer_id=1, producer_epoch=0, timestamp_ms=150, base_offset=13)
    last = build_batch([(None, b"y", 200, ())], base_offset=14)
    return bytes(first) + bytes(marker) + bytes(last)


@pytest.mark.parametrize(
    ("position", "oldest"),
    [
        (9, Oldest(10, 100)),
        (10, Oldest(10, 100)),
        (12, Oldest(12, 102)),
        (13, Oldest(14, 200)),
        (14, Oldest(14, 200)),
        (15, Oldest(15)),
    ],
)
def test_the_first_record_from_an_offset_on_is_found(position: int, oldest: Oldest) -> None:
    assert oldest_record(batches(), position) == oldest


def test_truncated_bytes_return_the_offset_to_continue_from() -> None:
    assert oldest_record(batches()[:-1], 13) == Oldest(14)
    assert oldest_record(b"", 13) == Oldest(13)


@pytest.mark.parametrize("compression", Compression)
def test_every_offset_in_every_compression_matches_a_reader_of_all_records(
    compression: Compression,
) -> None:
    rows = [Record(offset, 1_000 - offset, b"k", b"v" * 300, (("h", b"1"),)) for offset in (5, 6, 9, 300)]
    batch = bytes(build_batch(rows, compression=compression, base_offset=4, last_offset=310))

    for position in range(4, 311):
        first = next((one for one in iterate_records(batch) if one.offset >= position), None)
        expected = Oldest(311) if first is None else Oldest(first.offset, first.timestamp)
        assert oldest_record(batch, position) == expected


def test_with_log_append_time_the_timestamp_is_that_of_the_batch() -> None:
    batch = build_batch(
        [(None, b"x", 100, ())], max_timestamp=777, timestamp_type=TimestampType.LOG_APPEND_TIME
    )

    assert oldest_record(bytes(batch), 0) == Oldest(0, 777)


def test_a_batch_that_compaction_emptied_has_no_record() -> None:
    empty = bytes(build_batch([], base_offset=3, last_offset=7, base_timestamp=5))

    assert oldest_record(empty, 4) == Oldest(8)
    assert oldest_record(empty + batches(), 4) == Oldest(10, 100)


def test_sums_of_timestamps_wrap_around_as_in_java() -> None:
    batch = build_batch([(None, b"x", 2**62, ())], base_timestamp=0)
    header = read_header(batch)._replace(base_timestamp=2**62)

    assert oldest_record(bytes(seal_batch(header, batch[61:])), 0) == Oldest(0, -(2**63))


def test_damaged_bytes_raise_an_error() -> None:
    flipped = bytearray(batches())
    flipped[65] ^= 1
    good = build_batch([(None, b"x", 100, ())])
    too_long = bytes(seal_batch(read_header(good), b"\x7f" + bytes(good[62:])))

    for damaged in (bytes(flipped), too_long):
        with pytest.raises(KafkaError) as refused:
            oldest_record(damaged, 0)
        assert refused.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
