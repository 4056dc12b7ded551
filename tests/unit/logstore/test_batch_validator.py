"""What a leader answers to a batch: the codes that Apache Kafka gave when it was asked."""

import struct
from typing import Any

import pytest

from logstore.batch_validator import RecordError, RecordsRefused, validate_batch
from logstore.compression import Compression
from logstore.errors import ErrorCode, KafkaError
from logstore.log_config import LogConfig
from logstore.record import NewRecord, build_batch, iterate_records, seal_batch
from logstore.record_batch import HEADER_SIZE, TimestampType, check_batch, read_header

NOW_MS = 1_000_000_000_000
HOUR_MS = 3_600_000
ROWS: list[NewRecord] = [(b"k", b"v", NOW_MS, ()), (None, b"w", NOW_MS + 1, ())]


def changed(position: int, layout: str, value: int, batch: bytes | bytearray | None = None) -> bytearray:
    """A good batch with one field of the header overwritten and the CRC made right again."""
    content = bytearray(batch or build_batch(ROWS))
    struct.pack_into(">" + layout, content, position, value)
    return seal_batch(read_header(content), content[HEADER_SIZE:])


def raw(position: int, layout: str, value: int) -> bytearray:
    """The same without a new CRC or length."""
    content = bytearray(build_batch(ROWS))
    struct.pack_into(">" + layout, content, position, value)
    return content


def refusal(records: Any, config: LogConfig | None = None, **options: Any) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        validate_batch(records, config=config or LogConfig(), now_ms=NOW_MS, **options)
    return refused.value


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, 87),
        (b"", 87),
        (build_batch(ROWS)[:60], 87),
        (build_batch(ROWS)[:-1], 87),
        (build_batch(ROWS) * 2, 87),
        (raw(8, "i", -1), 2),
        (raw(8, "i", 2**31 - 1), 87),
        (raw(16, "b", 0), 87),
        (raw(16, "b", 1), 87),
        (raw(16, "b", 3), 2),
        (raw(17, "I", 12345), 2),
        (changed(0, "q", 57), 87),
        (changed(57, "i", 3), 87),
        (changed(57, "i", 0), 87),
        (changed(23, "i", 5), 87),
        (changed(21, "h", 0x20), 87),  # control
        (changed(43, "q", 7), 87),  # producer id without sequence
        (changed(21, "h", 5), 76),
        (changed(21, "h", 7), 76),
    ],
)
def test_a_batch_that_is_wrong_gets_kafkas_code(records: Any, code: int) -> None:
    assert refusal(records).code == code


def test_a_batch_too_large_is_refused() -> None:
    assert refusal(build_batch(ROWS), LogConfig(max_message_bytes=50)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_version_7() -> None:
    batch = build_batch(ROWS, compression=Compression.ZSTD)

    assert refusal(batch, produce_version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    lying = seal_batch(read_header(batch)._replace(records_count=7), batch[HEADER_SIZE:])
    assert refusal(lying, produce_version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    validate_batch(batch, config=LogConfig(), now_ms=NOW_MS, produce_version=7)


def test_a_codec_that_a_damaged_byte_names_is_damage() -> None:
    batch = build_batch(ROWS)
    batch[22] ^= 7

    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [1, 12, 60, 70])
def test_a_torn_batch_after_the_first_is_ignored(length: int) -> None:
    batch = build_batch(ROWS)

    valid = validate_batch(batch + batch[:length], config=LogConfig(), now_ms=NOW_MS)

    assert bytes(valid.batch) == batch


@pytest.mark.parametrize("timestamp", [-1, -5, 0, NOW_MS, NOW_MS + HOUR_MS])
def test_timestamps_within_the_window_are_taken(timestamp: int) -> None:
    validate_batch(build_batch([(None, b"", timestamp, ())]), config=LogConfig(), now_ms=NOW_MS)


def test_a_timestamp_in_the_future_names_its_record() -> None:
    late = build_batch([(None, b"", NOW_MS, ()), (None, b"", NOW_MS + 2 * HOUR_MS, ())])

    error = refusal(late)

    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordsRefused)
    assert [one.batch_index for one in error.record_errors] == [1]


def test_a_timestamp_too_old_is_refused_where_there_is_a_limit() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)

    assert refusal(build_batch([(None, b"", NOW_MS - 1001, ())]), config).code is ErrorCode.INVALID_TIMESTAMP
    validate_batch(build_batch([(None, b"", NOW_MS - 1000, ())]), config=config, now_ms=NOW_MS)


def test_compacted_topics_need_keys() -> None:
    error = refusal(build_batch(ROWS), LogConfig(cleanup_policy=("compact",)))

    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordsRefused)
    assert error.record_errors == (RecordError(1, "Compacted topic cannot accept message without key."),)


def test_all_records_at_fault_are_named_and_a_timestamp_goes_first() -> None:
    late = NOW_MS + 3_600_001
    rows: list[NewRecord] = [(b"k", b"", late, ()), (None, b"", late, ()), (b"k", b"", NOW_MS, ())]

    error = refusal(build_batch(rows), LogConfig(cleanup_policy=("compact",)))

    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordsRefused)
    assert [one.batch_index for one in error.record_errors] == [0, 1]
    assert error.record_errors[1].message == "Compacted topic cannot accept message without key."


@pytest.mark.parametrize("compression", Compression)
def test_compacted_topics_take_records_with_keys(compression: Compression) -> None:
    batch = build_batch(ROWS[:1] * 3, compression=compression)

    valid = validate_batch(batch, config=LogConfig(cleanup_policy=("compact", "delete")), now_ms=NOW_MS)

    assert bytes(valid.batch) == batch


def test_log_append_time_is_stamped_by_the_broker() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")

    valid = validate_batch(build_batch(ROWS), config=config, now_ms=NOW_MS + 77)

    header = check_batch(valid.batch)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS + 77)
    assert valid.header == header


def test_a_client_must_not_send_log_append_time() -> None:
    batch = build_batch(ROWS, timestamp_type=TimestampType.LOG_APPEND_TIME)

    stamped = LogConfig(message_timestamp_type="LogAppendTime")
    assert refusal(batch, stamped).code is ErrorCode.INVALID_TIMESTAMP
    valid = validate_batch(batch, config=LogConfig(), now_ms=NOW_MS)
    assert check_batch(valid.batch).timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize("sent", Compression)
@pytest.mark.parametrize("kept", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topics_compression_type_recompresses(sent: Compression, kept: str) -> None:
    batch = build_batch(ROWS, compression=sent)

    valid = validate_batch(batch, config=LogConfig(compression_type=kept), now_ms=NOW_MS)

    header = check_batch(valid.batch)
    assert header.compression.name.lower() == kept.replace("uncompressed", "none")
    assert [record.value for record in iterate_records(valid.batch)] == [b"v", b"w"]


@pytest.mark.parametrize("sent", [one for one in Compression if one is not Compression.NONE])
def test_what_cannot_be_opened_to_be_recompressed_is_not_sent_again(sent: Compression) -> None:
    """CORRUPT_MESSAGE is retried, as of bytes that were damaged on their way; Apache Kafka answers this."""
    batch = build_batch(ROWS, compression=sent)
    garbage = seal_batch(read_header(batch), b"\xee" * (len(batch) - HEADER_SIZE))
    kept = "gzip" if sent is not Compression.GZIP else "zstd"

    assert refusal(garbage, LogConfig(compression_type=kept)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_recompression_opens_no_bomb() -> None:
    bomb = build_batch([(b"k", bytes(200_000), NOW_MS, ())], compression=Compression.ZSTD)
    config = LogConfig(compression_type="gzip", max_decompressed_message_bytes=100_000)

    assert refusal(bomb, config).code is ErrorCode.MESSAGE_TOO_LARGE


def test_validate_records_corrects_a_lying_max_timestamp_and_refuses_a_lying_count() -> None:
    config = LogConfig(validate_records=True)
    lying = changed(35, "q", NOW_MS + 500)

    assert check_batch(validate_batch(lying, config=config, now_ms=NOW_MS).batch).max_timestamp == NOW_MS + 1
    short = build_batch(ROWS[:1])
    struct.pack_into(">i", short, 23, 1)
    assert refusal(changed(57, "i", 2, short), config).code is ErrorCode.INVALID_RECORD


def test_a_read_only_buffer_is_left_alone() -> None:
    batch = bytes(build_batch(ROWS))

    valid = validate_batch(batch, config=LogConfig(message_timestamp_type="LogAppendTime"), now_ms=NOW_MS)

    assert bytes(valid.batch) != batch
    check_batch(batch)


def test_coordinators_write_control_batches() -> None:
    marker = build_batch(ROWS[:1], is_control=True, is_transactional=True, producer_id=1, producer_epoch=0)

    assert refusal(marker).code is ErrorCode.INVALID_RECORD
    assert validate_batch(marker, config=LogConfig(), now_ms=NOW_MS, is_client=False).header.is_control
