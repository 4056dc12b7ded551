"""The due times of records, by their headers and by the topic's delay, and the delays that are rejected."""

from typing import Any

import pytest

from ottla.logstore.batch_validator import (
    RecordValidationError,
    stores_unchanged,
    validate_at_once,
    validate_batch,
)
from ottla.logstore.compression import Compression
from ottla.logstore.delivery_delay import WALKED_AT_ONCE, delayed_records
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import NewRecord, Record, build_batch
from ottla.logstore.record_batch import TimestampType, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError

NOW_MS = 1_700_000_000_000
MAX_MS = 1_000_000
AT, AFTER = "ottla.deliver.at", "ottla.deliver.after.ms"
DELAYING = LogConfig(ottla_delivery_delay_enable=True, ottla_delivery_delay_max_ms=MAX_MS)
BYTES_AT = (NOW_MS + 6).to_bytes(8, "big")


def record(*headers: tuple[str, bytes | None], timestamp_ms: int = NOW_MS) -> NewRecord:
    return None, b"value", timestamp_ms, headers


def due_times(*records: NewRecord, config: LogConfig = DELAYING, **batch: Any) -> dict[int, int]:
    """Return the offsets of records that are not due at NOW_MS, with the ms from then until they are."""
    content = build_batch(records, base_offset=100, **batch)
    return {
        offset: due_ms - NOW_MS
        for piece in delayed_records(read_header(content), content, config, NOW_MS)
        for offset, due_ms in zip(piece.offsets, piece.due_ms, strict=True)
    }


def refusal(*records: NewRecord, config: LogConfig = DELAYING, **batch: Any) -> RecordValidationError:
    with pytest.raises(RecordValidationError) as refused:
        validate_batch(build_batch(records, **batch), config=config, now_ms=NOW_MS)
    return refused.value


@pytest.mark.parametrize(
    ("headers", "due"),
    [
        ([], None),
        ([(AT, b"%d" % (NOW_MS + 5))], 5),
        ([(AT, BYTES_AT)], 6),
        ([(AT, b"%d" % NOW_MS)], None),  # due now
        ([(AT, b"12345678")], None),  # 8 digits are read as digits: a time long ago
        ([(AFTER, b"12345678")], MAX_MS),
        ([(AFTER, b"7")], 7),
        ([(AFTER, b"0000000000000000007")], 7),
        ([(AFTER, (8).to_bytes(8, "big"))], 8),
        ([(AFTER, b"7"), (AFTER, b"9")], 9),  # the last one counts
        ([(AFTER, b"7"), (AFTER, b"")], None),
        ([(AT, b"%d" % (NOW_MS + 5)), (AFTER, b"9")], 5),  # the absolute time takes precedence
        ([("ottla.deliver.AT", b"9"), ("x" * 22, b"9"), ("", b"9")], None),
        # In records that are in the log already, a value that is not a number means "at once".
        *(([(AFTER, value)], None) for value in (None, b"", b"-5", b"+5", b"1e3", b"\xff" * 8, b"9" * 30)),
        ([(AFTER, b"0" * 20)], None),
        ([(AFTER, b"\0" * 7)], None),
        ([(AT, b"9223372036854775807")], MAX_MS),  # the maximum delay
        ([(AT, b"9223372036854775808")], None),
    ],
)
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_header_sets_when_a_record_is_due(
    headers: list[tuple[str, bytes | None]], due: int | None, compression: Compression
) -> None:
    found = due_times(record(), record(*headers), compression=compression)

    assert found == ({} if due is None else {101: due})


@pytest.mark.parametrize(
    ("offsets", "last", "due"),
    [((0, 0, 1), 2, [0, 1]), ((0, 2, 1, 3), 3, [0, 2, 3]), ((3, 1), 3, [3]), ((0, 9), 1, [0])],
)
def test_offsets_out_of_order_or_outside_the_batch_are_skipped(
    offsets: tuple[int, ...], last: int, due: list[int]
) -> None:
    content = build_batch(
        [Record(offset, NOW_MS, None, b"", ((AFTER, b"7"),)) for offset in offsets],
        base_offset=0,
        last_offset=last,
    )

    found = list(delayed_records(read_header(content), content, DELAYING, NOW_MS))

    assert [(list(one.offsets), list(one.due_ms)) for one in found] == [(due, [NOW_MS + 7] * len(due))]


def test_offsets_that_do_not_grow_between_pieces_are_skipped() -> None:
    rows = [Record(0, NOW_MS, None, b"", ((AFTER, b"7"),))] * (2 * WALKED_AT_ONCE)
    content = build_batch(rows, base_offset=0, last_offset=len(rows) - 1)

    found = list(delayed_records(read_header(content), content, DELAYING, NOW_MS))

    assert [list(one.offsets) for one in found] == [[0]]


def test_the_topics_delay_counts_from_the_records_timestamp() -> None:
    config = LogConfig(ottla_delivery_delay_enable=True, ottla_delivery_delay_ms=1000)
    records = [
        record(),
        record(timestamp_ms=NOW_MS - 400),
        record(timestamp_ms=NOW_MS - 1000),
        record((AFTER, b"0")),  # the header overrides the topic's delay
        record(timestamp_ms=-1),  # without a timestamp it is due at once
    ]

    assert due_times(*records, config=config) == {100: 1000, 101: 600}
    stamped = due_times(
        *records, config=config, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW_MS - 1
    )
    assert stamped == dict.fromkeys((100, 101, 102, 104), 999)


def test_a_large_batch_is_walked_in_pieces() -> None:
    count = WALKED_AT_ONCE + 2
    content = build_batch([record((AFTER, b"5"))] * count, compression=Compression.GZIP)
    pauses = []

    pieces = list(
        delayed_records(read_header(content), content, DELAYING, NOW_MS, pause=lambda: pauses.append(1))
    )

    assert sum(len(piece.offsets) for piece in pieces) == count
    assert len(pieces) > 1 and len(pauses) > 1
    assert [offset for piece in pieces for offset in piece.offsets] == list(range(count))


def test_control_batches_are_never_delayed() -> None:
    config = LogConfig(ottla_delivery_delay_enable=True, ottla_delivery_delay_ms=1000)

    assert due_times(record(), config=config, is_control=True) == {}


def test_a_batch_that_is_cut_off_is_corrupt() -> None:
    content = build_batch([record((AFTER, b"5"))])

    with pytest.raises(KafkaError) as refused:
        list(delayed_records(read_header(content), content[:-1], DELAYING, NOW_MS))

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_records_whose_delay_is_not_a_number_are_named(compression: Compression) -> None:
    refused = refusal(record(), record((AT, b"soon")), record((AFTER, b"")), compression=compression)

    assert refused.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [1, 2]
    assert "no number in the header" in refused.record_errors[0].message


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_records_that_are_due_too_far_ahead_are_named(compression: Compression) -> None:
    bound = b"%d" % MAX_MS
    too_late = b"%d" % (NOW_MS + MAX_MS + 1)
    fitting = (record((AFTER, bound)), record((AFTER, bound), timestamp_ms=NOW_MS - 5))

    refused = refusal(*fitting, record((AT, too_late)), compression=compression)

    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.record_errors] == [2]
    assert "ottla.delivery.delay.max.ms" in refused.record_errors[0].message
    content = build_batch(fitting, compression=compression)
    assert validate_batch(content, config=DELAYING, now_ms=NOW_MS).batch == content


def test_with_append_time_the_delay_counts_from_the_append() -> None:
    config = LogConfig(
        ottla_delivery_delay_enable=True,
        ottla_delivery_delay_max_ms=10,
        message_timestamp_type="LogAppendTime",
    )
    early, late = record((AFTER, b"10"), timestamp_ms=NOW_MS + 500), record((AFTER, b"11"), timestamp_ms=0)

    assert [error.batch_index for error in refusal(early, late, config=config).record_errors] == [1]


def test_the_number_of_named_records_is_limited() -> None:
    assert len(refusal(*[record((AT, None))] * 1000).record_errors) == 100


def test_a_topic_without_delays_accepts_any_header() -> None:
    content = build_batch([record((AT, b"soon"), (AFTER, b"9" * 30))])

    valid = validate_at_once(content, config=LogConfig(), now_ms=NOW_MS, produce_version=13)

    assert valid is not None and valid.batch == content


def test_a_topic_with_delays_opens_each_batch() -> None:
    trusting = LogConfig(validate_records=False, ottla_delivery_delay_enable=True)

    assert not stores_unchanged(trusting) and trusting.opens_records
    assert refusal(record((AT, b"soon")), config=trusting).code is ErrorCode.INVALID_RECORD
