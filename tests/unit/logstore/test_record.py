"""Records in and out of a batch, and bytes that are not records."""

from typing import Any

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import (
    MARKER_SIZE,
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
    iterate_records,
    parse_marker,
    records_of,
    seal_batch,
)
from ottla.logstore.record_batch import TimestampType, check_batch, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError

ROWS = [
    (b"key", b"value", 1000, ()),
    (None, None, 990, (("name", b"content"), ("null", None))),
    (b"", b"", 1010, ()),
]
BY_HAND = [Record(index, row[2], row[0], row[1], row[3]) for index, row in enumerate(ROWS)]


@pytest.mark.parametrize("compression", Compression)
def test_records_are_parsed_as_they_were_built(compression: Compression) -> None:
    batch = build_batch(ROWS, compression=compression, base_offset=0)

    assert list(iterate_records(batch)) == BY_HAND
    header = check_batch(batch)
    assert (header.base_timestamp, header.max_timestamp, header.last_offset) == (1000, 1010, 2)


def test_one_record_has_the_bytes_of_the_protocol() -> None:
    batch = build_batch([(b"k", b"v", 7, (("h", b"x"),))])

    assert (
        batch[61:]
        == bytes([24, 0, 0, 0, 2]) + b"k" + bytes([2]) + b"v" + bytes([2, 2]) + b"h" + bytes([2]) + b"x"
    )


def test_compaction_keeps_offsets_with_gaps() -> None:
    kept = [Record(10, 5, b"a", b"1"), Record(14, 9, b"b", None)]

    batch = build_batch(kept, base_offset=8, last_offset=20, delete_horizon_ms=77)

    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.delete_horizon_ms) == (8, 20, 77)
    assert list(iterate_records(batch)) == kept


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = build_batch(ROWS, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=5555)

    assert {record.timestamp for record in iterate_records(batch)} == {5555}


def test_a_marker_has_the_outcome_of_its_transaction() -> None:
    marker = EndTransactionMarker(ControlType.COMMIT, 3)

    batch = build_marker(marker, producer_id=9, producer_epoch=2, timestamp_ms=1)

    header = check_batch(batch)
    assert header.is_control and header.is_transactional and header.base_sequence == -1
    assert header.attributes == 0x30
    assert parse_marker(next(iterate_records(batch))) == marker
    assert records_of([batch]) == []


@pytest.mark.parametrize("control_type", ControlType)
@pytest.mark.parametrize("timestamp_type", TimestampType)
def test_a_marker_equals_a_batch_of_its_one_record(
    control_type: ControlType, timestamp_type: TimestampType
) -> None:
    place: Any = {
        "producer_id": 2**40,
        "producer_epoch": 32767,
        "base_offset": 7,
        "partition_leader_epoch": 5,
    }

    batch = build_marker(
        EndTransactionMarker(control_type, 2**20),
        timestamp_ms=1_700_000_000_123,
        is_log_append_time=timestamp_type is TimestampType.LOG_APPEND_TIME,
        **place,
    )

    key, value = b"\0\0\0" + bytes([control_type]), b"\0\0" + (2**20).to_bytes(4, "big")
    record = (key, value, 1_700_000_000_123, ())
    assert batch == build_batch(
        [record], timestamp_type=timestamp_type, is_transactional=True, is_control=True, **place
    )
    assert len(batch) == MARKER_SIZE == 78


@pytest.mark.parametrize(
    ("records_count", "content"),
    [
        (2, bytes([12, 0, 0, 0, 1, 1, 0])),  # one record, two announced
        (1, bytes([12, 0, 0, 0, 1, 1, 0]) * 2),  # two records, one announced
        (1, bytes([14, 0, 0, 0, 1, 1, 0])),  # longer than the batch
        (1, bytes([12, 0, 0, 0, 4, 1, 0])),  # a key that extends beyond its record
        (1, bytes([12, 0, 0, 0, 1, 1, 2])),  # a header that is missing
        (1, bytes([14, 0, 0, 0, 1, 1, 0, 0])),  # a byte left over in the record
        (1, bytes([16, 0, 0, 0, 1, 1, 2, 1, 1])),  # a header without a name
        (1000, bytes([12, 0, 0, 0, 1, 1, 0])),
        (1, bytes([12, 0, 0, 1, 1, 1, 0])),  # offset delta -1
        (1, bytes([12, 0, 0, 6, 1, 1, 0])),  # offset delta 3 in a batch of 3
    ],
)
def test_bytes_that_are_not_records_are_rejected(records_count: int, content: bytes) -> None:
    header = read_header(build_batch(ROWS))._replace(records_count=records_count)
    batch = seal_batch(header, content)

    with pytest.raises(KafkaError) as refused:
        list(iterate_records(batch))

    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_the_decompressed_size_of_a_batch_is_bounded() -> None:
    batch = build_batch([(None, bytes(100_000), 0, ())], compression=Compression.ZSTD)

    with pytest.raises(KafkaError) as refused:
        list(iterate_records(batch, max_decompressed_bytes=50_000))

    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_timestamps_wrap_around_at_64_bits_as_in_java() -> None:
    delta = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2^63 - 1, on a base of 1000
    batch = seal_batch(
        read_header(build_batch(ROWS))._replace(records_count=1), bytes([30, 0, *delta, 0, 1, 1, 0])
    )

    assert [record.timestamp for record in iterate_records(batch)] == [-(2**63) + 999]
