"""Fetches opened into columns: the records that a reader sees, the next offset, and refused bytes."""

import numpy as np
import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import (
    ControlType,
    EndTransactionMarker,
    NewRecord,
    Record,
    build_batch,
    build_marker,
    seal_batch,
)
from ottla.logstore.record_batch import TimestampType, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.columns.fetched_batches import open_fetched
from tests.traced_memory import peak_bytes
from tests.unit.pipeline.columns.fetches import MAX_OFFSET, Aborted, open_all, rows_of


def row(value: bytes, timestamp_ms: int = 1000) -> NewRecord:
    return (b"k", value, timestamp_ms, ())


def of_transaction(base_offset: int, producer_id: int, *values: bytes) -> bytes:
    return bytes(
        build_batch(
            [row(value) for value in values],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def marker(base_offset: int, producer_id: int, control_type: ControlType) -> bytes:
    return bytes(
        build_marker(
            EndTransactionMarker(control_type, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=1,
            base_offset=base_offset,
        )
    )


def values_of(records: bytes, **range_: int) -> list[bytes | None]:
    return [one.value for one in rows_of(open_all(records, **range_))]


@pytest.mark.parametrize("compression", Compression)
def test_a_fetch_comes_out_as_it_went_in(compression: Compression) -> None:
    rows: list[NewRecord] = [
        (b"key", b"value" * 30, 1000, ()),
        (None, None, 900, (("a", b"1"), ("a", None))),
        (b"", b"", 70_000, (("", b""),)),
    ]
    batches = [
        build_batch(rows, base_offset=at, compression=compression if at else Compression.NONE)
        for at in range(0, 30, 3)
    ]

    fetched = open_all(b"".join(batches))

    expected = [Record(at, ts, key, value, headers) for at, (key, value, ts, headers) in enumerate(rows * 10)]
    assert rows_of(fetched) == expected
    assert fetched.next_offset == 30


def test_an_empty_fetch_stays_at_its_offset() -> None:
    fetched = open_all(b"", start=7)

    assert fetched == (None, 7)


def test_a_range_is_cut_on_both_sides_and_ends_at_its_end() -> None:
    records = bytes(build_batch([row(b"%d" % at) for at in range(10)], base_offset=100))

    fetched = open_all(records, start=103, end=106)

    assert [one.value for one in rows_of(fetched)] == [b"3", b"4", b"5"]
    assert fetched.next_offset == 106


def test_a_batch_behind_the_range_ends_it() -> None:
    records = bytes(build_batch([row(b"x")], base_offset=50))

    assert open_all(records, start=10, end=20) == (None, 20)


def test_a_torn_batch_is_left_for_the_next_fetch() -> None:
    whole = bytes(build_batch([row(b"a")]))
    torn = bytes(build_batch([row(b"b")], base_offset=1))

    for length in (1, 11, 12, 60, 61, len(torn) - 1):
        fetched = open_all(whole + torn[:length])

        assert ([one.value for one in rows_of(fetched)], fetched.next_offset) == ([b"a"], 1)


def test_aborted_transactions_are_left_out_among_others() -> None:
    records = (
        of_transaction(0, 1, b"a1")
        + of_transaction(1, 2, b"b1")
        + bytes(build_batch([row(b"plain")], base_offset=2))
        + of_transaction(3, 1, b"a2")
        + marker(4, 1, ControlType.ABORT)
        + of_transaction(5, 1, b"a3")
        + marker(6, 2, ControlType.COMMIT)
        + marker(7, 1, ControlType.COMMIT)
    )

    fetched = open_all(records, aborted=(Aborted(1, 0),))

    assert [one.value for one in rows_of(fetched)] == [b"b1", b"plain", b"a3"]
    assert fetched.next_offset == 8


def test_a_second_abort_of_the_same_producer_counts_from_its_own_offset() -> None:
    records = (
        of_transaction(0, 1, b"gone")
        + marker(1, 1, ControlType.ABORT)
        + of_transaction(2, 1, b"stays")
        + marker(3, 1, ControlType.COMMIT)
        + of_transaction(4, 1, b"gone, too")
        + marker(5, 1, ControlType.ABORT)
    )

    fetched = open_all(records, aborted=(Aborted(1, 4), Aborted(1, 0)))

    assert [one.value for one in rows_of(fetched)] == [b"stays"]


def test_a_reader_of_uncommitted_records_sees_all_but_markers() -> None:
    records = of_transaction(0, 1, b"a") + marker(1, 1, ControlType.ABORT)

    fetched = open_fetched(
        records, aborted=[Aborted(1, 0)], read_committed=False, start=0, end=2, with_headers=True
    )

    assert [one.value for one in rows_of(fetched)] == [b"a"]


def test_a_range_that_ends_on_a_marker_is_done() -> None:
    records = of_transaction(0, 1, b"a") + marker(1, 1, ControlType.COMMIT)

    fetched = open_all(records, start=1, end=2)

    assert fetched == (None, 2)


def test_compacted_batches_keep_their_offsets() -> None:
    batch = build_batch([Record(12, 1, b"k", b"left")], base_offset=10, last_offset=15)
    empty = build_batch([], base_offset=16, last_offset=20, producer_id=1, producer_epoch=0)

    fetched = open_all(bytes(batch + empty), start=10)

    assert [one.offset for one in rows_of(fetched)] == [12]
    assert fetched.next_offset == 21


def test_log_append_times_and_missing_timestamps_are_read() -> None:
    appended = build_batch(
        [row(b"a", 5), row(b"b", 6)], timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=99
    )
    without = build_batch([row(b"c", -1)], base_offset=2)

    columns = open_all(bytes(appended + without)).columns

    assert columns is not None
    assert columns.timestamps_ms.tolist() == [99, 99, -1]
    assert columns.timestamp_types.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    "wanted", [frozenset(), frozenset({"key"}), frozenset({"value"}), frozenset({"key", "value"})]
)
def test_only_the_wanted_fields_are_read(wanted: frozenset[str]) -> None:
    records = bytes(build_batch([(b"k", b"v", 1, (("h", b"x"),)), (None, b"w", 1, ())]))

    columns = open_fetched(
        records, aborted=(), read_committed=True, start=0, end=2, with_headers=False, wanted=wanted
    ).columns

    assert columns is not None and columns.headers is None and columns.offsets.tolist() == [0, 1]
    assert (columns.keys.to_pylist() if columns.keys else None) == ([b"k", None] if "key" in wanted else None)
    assert (columns.values.to_pylist() if columns.values else None) == (
        [b"v", b"w"] if "value" in wanted else None
    )


def test_a_header_key_that_is_not_utf_8_is_read_as_java_reads_it() -> None:
    body = bytes(build_batch([(None, b"v", 1, (("ab", b"x"), ("cd", b"y")))]))
    forged = bytes(seal_batch(read_header(body), body[61:].replace(b"ab", b"\xff\xc3")))

    (only,) = rows_of(open_all(forged))

    assert only.headers == (("\ufffd\ufffd", b"x"), ("cd", b"y"))


def test_columns_do_not_hold_the_bytes_that_they_came_from() -> None:
    records = bytearray(build_batch([row(b"value")]))
    columns = open_all(records).columns  # type: ignore[arg-type]
    assert columns is not None and columns.values is not None

    records[:] = bytes(len(records))

    assert columns.values.to_pylist() == [b"value"]


def test_batches_that_would_open_into_too_much_are_left_for_the_next_fetch() -> None:
    batches = b"".join(
        build_batch([row(bytes(100_000))], base_offset=at, compression=Compression.ZSTD) for at in range(10)
    )

    fetched = open_fetched(
        batches,
        aborted=(),
        read_committed=True,
        start=0,
        end=10,
        with_headers=False,
        max_opened_bytes=250_000,
    )

    assert fetched.next_offset == 3
    assert open_all(batches, start=3).next_offset == 10


def test_records_beyond_a_number_are_left_for_the_next_fetch() -> None:
    batches = b"".join(build_batch([row(b"x")] * 10, base_offset=at) for at in range(0, 50, 10))

    fetched = open_fetched(
        batches, aborted=(), read_committed=True, start=0, end=50, with_headers=False, max_opened_records=25
    )

    assert fetched.next_offset == 20


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_a_batch_with_too_many_records_is_read_in_pieces(compression: Compression) -> None:
    rows = [row(b"%d" % number) for number in range(100)]
    batches = b"".join(build_batch(rows, base_offset=at, compression=compression) for at in (0, 100))

    read, positions, position = [], [], 3
    while position < 200:
        positions.append(position)
        fetched = open_all(batches, start=position, max_opened_records=30)
        read += [one.offset for one in rows_of(fetched)]
        position = fetched.next_offset

    assert read == [*range(3, 200)]
    assert positions == [3, 30, 60, 90, 100, 130, 160, 190]


def test_records_with_too_many_headers_are_read_in_pieces() -> None:
    headers = (("h", b"1"),) * 10
    batch = bytes(build_batch([(b"k", b"v", 1, headers)] * 50))

    read, positions, position = [], [], 0
    while position < 50:
        positions.append(position)
        fetched = open_all(batch, start=position, max_opened_headers=205)
        read += [len(one.headers) for one in rows_of(fetched)]
        position = fetched.next_offset

    assert read == [10] * 50
    assert positions == [0, 20, 40]
    # One record is returned, however many headers it has.
    assert open_all(batch, max_opened_headers=3).next_offset == 1


def test_a_batch_of_the_shortest_records_takes_little_memory_at_a_time() -> None:
    batch = bytes(build_batch([(None, None, 0, ())] * 60_000))

    assert open_all(batch, max_opened_records=2_000).next_offset == 2_000
    # All at once would take twenty times as much.
    assert peak_bytes(lambda: open_all(batch, max_opened_records=2_000)) < 3 * len(batch)


def test_offsets_that_do_not_rise_are_corrupt_rather_than_requested_for_ever() -> None:
    record = b"\x10\0\0\0\x01\x01\x02\0\0"  # offset delta 0, one header

    with pytest.raises(KafkaError, match="do not increase from 0"):
        open_all(sealed(record * 2, records_count=2, last_offset_delta=1), max_opened_headers=1)


def refusal(records: bytes, start: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        open_all(records, start=start)
    return refused.value.code


def sealed(body: bytes, records_count: int = 1, last_offset_delta: int = 0) -> bytes:
    """Return a batch with a valid CRC around any bytes."""
    header = read_header(build_batch([row(b"x")]))
    return bytes(
        seal_batch(header._replace(records_count=records_count, last_offset_delta=last_offset_delta), body)
    )


VARINT_OF_6_BYTES = b"\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a length beyond the batch", b"\x7e" + bytes(8)),
        ("a length of 2^31 - 1", b"\xfe\xff\xff\xff\x0f" + bytes(8)),
        ("a negative length", b"\x01" + bytes(8)),
        ("a length of six bytes", VARINT_OF_6_BYTES + bytes(8)),
        ("a length too short for a record", b"\x04" + bytes(2) + bytes(6)),
        ("a length shorter than its fields", b"\x0a\0\0\0\x01\x01\0"),
        ("a length longer than its fields", b"\x0e\0\0\0\x01\x01\0"),
        ("bytes behind the headers", b"\x12\0\0\0\x01\x01\x02\0\x01\x07"),
        ("a key beyond the record", b"\x0c\0\0\0\x20\0\0"),
        ("a key of 2^31 - 1", b"\x16\0\0\0\xfe\xff\xff\xff\x0f\0\0\0"),
        ("a value beyond the record", b"\x0c\0\0\0\x01\x20\0"),
        ("bytes behind the value", b"\x0e\0\0\0\x01\x01\0\0"),
        ("bytes behind the record", b"\x0c\0\0\0\x01\x01\0\0"),
        ("more headers than bytes", b"\x0e\0\0\0\x01\x01\x06\0"),
        ("a negative count of headers", b"\x0c\0\0\0\x01\x01\x01"),
        ("a header without a key", b"\x10\0\0\0\x01\x01\x02\x01\0"),
        ("a header value beyond the record", b"\x10\0\0\0\x01\x01\x02\0\x7e"),
        ("an offset beyond the batch", b"\x0c\0\0\x02\x01\x01\0"),
        ("a negative offset", b"\x0c\0\0\x01\x01\x01\0"),
        ("a timestamp of eleven bytes", b"\x20\0" + b"\xff" * 10 + b"\x01\0\x01\x01\0"),
        ("nothing", b""),
    ],
)
def test_bytes_with_wrong_lengths_are_corrupt(name: str, body: bytes) -> None:
    assert refusal(sealed(body)) is ErrorCode.CORRUPT_MESSAGE, name


def test_a_value_beyond_its_record_is_corrupt_also_without_headers() -> None:
    records = sealed(b"\x0c\0\0\0\x01\x20\x02")

    with pytest.raises(KafkaError) as refused:
        open_fetched(records, aborted=(), read_committed=True, start=0, end=1, with_headers=False)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_wrong_counts_are_corrupt() -> None:
    two = bytes(build_batch([row(b"a"), row(b"b")]))[61:]

    for count in (0, 1, 3, 2**31 - 1):
        assert refusal(sealed(two, count, 2**31 - 1)) is ErrorCode.CORRUPT_MESSAGE


def test_the_crc_is_always_checked() -> None:
    records = bytearray(build_batch([row(b"value")]))
    records[-3] ^= 1

    assert refusal(bytes(records)) is ErrorCode.CORRUPT_MESSAGE


def test_an_answer_without_anything_from_the_offset_on_is_corrupt() -> None:
    old = bytes(build_batch([row(b"a")]))

    assert refusal(old, start=5) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(old[:40]) is ErrorCode.CORRUPT_MESSAGE


def test_batches_whose_offsets_do_not_rise_are_corrupt() -> None:
    batch = bytes(build_batch([row(b"a"), row(b"b")], base_offset=4))

    assert refusal(batch + batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.slow
def test_a_batch_that_opens_into_more_than_a_broker_takes_is_refused() -> None:
    bomb = build_batch([row(bytes(101 * 1024 * 1024))], compression=Compression.ZSTD)

    assert refusal(bytes(bomb)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_record_with_too_many_headers_is_refused() -> None:
    records = bytes(build_batch([(None, None, 1, (("", None),) * 100_001)], compression=Compression.ZSTD))

    assert refusal(records) is ErrorCode.CORRUPT_MESSAGE


def test_the_largest_offsets_do_not_overflow() -> None:
    batch = build_batch([row(b"a"), row(b"b")], base_offset=MAX_OFFSET - 1, base_timestamp=2**63 - 1)

    with np.errstate(all="raise"):
        fetched = open_all(bytes(batch), start=MAX_OFFSET - 1)

    assert values_of(bytes(batch), start=MAX_OFFSET - 1) == [b"a"]
    assert fetched.next_offset == MAX_OFFSET
