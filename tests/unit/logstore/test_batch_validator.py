"""The validation of a batch by its leader, with the error codes that Apache Kafka returned in trials."""

import re
import struct
import sys
from itertools import count
from random import Random
from typing import Any

import lz4.frame
import pytest

from ottla.logstore import record_walk
from ottla.logstore.batch_validator import (
    COMPRESSED_AT_ONCE_BYTES,
    RecordError,
    RecordValidationError,
    plain_header,
    validate_at_once,
    validate_batch,
)
from ottla.logstore.compression import Compression, compress
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import NewRecord, build_batch, iterate_records, seal_batch
from ottla.logstore.record_batch import HEADER_SIZE, TimestampType, check_batch, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import append_varint
from tests.traced_memory import peak_bytes

NOW_MS = 1_000_000_000_000
HOUR_MS = 3_600_000
ROWS: list[NewRecord] = [(b"k", b"v", NOW_MS, ()), (None, b"w", NOW_MS + 1, ())]


def changed(position: int, layout: str, value: int, batch: bytes | bytearray | None = None) -> bytearray:
    """Return a valid batch with one field of the header overwritten and the CRC corrected."""
    content = bytearray(batch or build_batch(ROWS))
    struct.pack_into(">" + layout, content, position, value)
    return seal_batch(read_header(content), content[HEADER_SIZE:])


def raw(position: int, layout: str, value: int) -> bytearray:
    """Return a valid batch with one field of the header overwritten; CRC and length stay."""
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
def test_an_invalid_batch_gets_kafkas_error_code(records: Any, code: int) -> None:
    assert refusal(records).code == code


def test_a_batch_too_large_is_rejected() -> None:
    assert refusal(build_batch(ROWS), LogConfig(max_message_bytes=50)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_version_7() -> None:
    batch = build_batch(ROWS, compression=Compression.ZSTD)

    assert refusal(batch, produce_version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    wrong_count = seal_batch(read_header(batch)._replace(records_count=7), batch[HEADER_SIZE:])
    assert refusal(wrong_count, produce_version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    validate_batch(batch, config=LogConfig(), now_ms=NOW_MS, produce_version=7)


def test_an_unknown_codec_with_a_wrong_crc_is_reported_as_damage() -> None:
    batch = build_batch(ROWS)
    batch[22] ^= 7

    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [1, 12, 60, 70])
def test_a_torn_batch_after_the_first_is_ignored(length: int) -> None:
    batch = build_batch(ROWS)

    valid = validate_batch(batch + batch[:length], config=LogConfig(), now_ms=NOW_MS)

    assert bytes(valid.batch) == batch


@pytest.mark.parametrize("timestamp", [-1, -5, 0, NOW_MS, NOW_MS + HOUR_MS])
def test_timestamps_within_the_window_are_accepted(timestamp: int) -> None:
    validate_batch(build_batch([(None, b"", timestamp, ())]), config=LogConfig(), now_ms=NOW_MS)


def test_a_timestamp_in_the_future_names_its_record() -> None:
    late = build_batch([(None, b"", NOW_MS, ()), (None, b"", NOW_MS + 2 * HOUR_MS, ())])

    error = refusal(late)

    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [one.batch_index for one in error.record_errors] == [1]


def test_a_timestamp_that_is_too_old_is_rejected_if_there_is_a_limit() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)

    assert refusal(build_batch([(None, b"", NOW_MS - 1001, ())]), config).code is ErrorCode.INVALID_TIMESTAMP
    validate_batch(build_batch([(None, b"", NOW_MS - 1000, ())]), config=config, now_ms=NOW_MS)


def test_compacted_topics_need_keys() -> None:
    error = refusal(build_batch(ROWS), LogConfig(cleanup_policy=("compact",)))

    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordValidationError)
    assert error.record_errors == (RecordError(1, "Compacted topic cannot accept message without key."),)


def test_all_invalid_records_are_named_and_timestamps_take_precedence() -> None:
    late = NOW_MS + 3_600_001
    rows: list[NewRecord] = [(b"k", b"", late, ()), (None, b"", late, ()), (b"k", b"", NOW_MS, ())]

    error = refusal(build_batch(rows), LogConfig(cleanup_policy=("compact",)))

    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [one.batch_index for one in error.record_errors] == [0, 1]
    assert error.record_errors[1].message == "Compacted topic cannot accept message without key."


@pytest.mark.parametrize("compression", Compression)
def test_compacted_topics_accept_records_with_keys(compression: Compression) -> None:
    batch = build_batch(ROWS[:1] * 3, compression=compression)

    valid = validate_batch(batch, config=LogConfig(cleanup_policy=("compact", "delete")), now_ms=NOW_MS)

    assert bytes(valid.batch) == batch


def test_log_append_time_is_set_by_the_broker() -> None:
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
def test_records_that_cannot_be_decompressed_get_an_error_that_is_not_retried(sent: Compression) -> None:
    """Clients would retry after CORRUPT_MESSAGE, as for bytes damaged on the way; Kafka does the same."""
    batch = build_batch(ROWS, compression=sent)
    garbage = seal_batch(read_header(batch), b"\xee" * (len(batch) - HEADER_SIZE))
    kept = "gzip" if sent is not Compression.GZIP else "zstd"

    assert refusal(garbage, LogConfig(compression_type=kept)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_recompression_rejects_a_bomb() -> None:
    bomb = build_batch([(b"k", bytes(200_000), NOW_MS, ())], compression=Compression.ZSTD)
    config = LogConfig(compression_type="gzip", max_decompressed_message_bytes=100_000)

    assert refusal(bomb, config).code is ErrorCode.MESSAGE_TOO_LARGE


def record(
    delta: int,
    *,
    length: int | None = None,
    key: bytes = b"\x02k",
    headers: bytes = b"\0",
    timestamp_delta: int = 0,
) -> bytes:
    """Return the bytes of a record with a value of one byte, and the given parts."""
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, delta)
    body += key + b"\x02v" + headers
    head = bytearray()
    append_varint(head, len(body) if length is None else length)
    return bytes(head + body)


def damaged(content: bytes, count: int, codec: Compression = Compression.NONE, **fields: int) -> bytearray:
    """Return a batch with these records and a correct header, except for the given fields."""
    header = read_header(build_batch([(b"k", b"v", NOW_MS, ())]))
    header = header._replace(
        **{"attributes": int(codec), "records_count": count, "last_offset_delta": count - 1, **fields}
    )
    return seal_batch(header, compress(codec, content))


BROKEN = {
    "a count that is too large": (record(0), 1000),
    "a count of 2^31-1": (record(0), 2**31 - 1),
    "a count that is too small": (record(0) + record(1), 1),
    "no records": (b"", 1),
    "a negative length": (record(0, length=-5), 1),
    "a length of nothing": (b"\0", 1),
    "a length beyond the end": (record(0, length=100), 1),
    "a byte behind the last record": (record(0) + b"\0", 1),
    "a byte behind the headers": (record(0, headers=b"\0\0"), 1),
    "an offset delta twice": (record(0) + record(0), 2),
    "an offset delta that is too large": (record(0) + record(7), 2),
    "a negative offset delta": (record(-1) + record(1), 2),
    "a header without a key": (record(0, headers=b"\x02\x01\0"), 1),
    "a negative count of headers": (record(0, headers=b"\x01"), 1),
    "headers that are not there": (record(0, headers=b"\x0a"), 1),
    "a key that leaves its record": (record(0, key=b"\x32k") + record(1), 2),
    "a length of six bytes": (b"\x80\x80\x80\x80\x80\x01" + record(0), 1),
}


# Faults that the header of an uncompressed batch shows; of a compressed one only the count of 2^31-1.
SEEN_IN_THE_HEADER = {"a count that is too large", "a count of 2^31-1", "no records", "a length of nothing"}


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("name", BROKEN)
def test_a_batch_that_readers_cannot_parse_is_rejected(name: str, codec: Compression) -> None:
    batch = damaged(*BROKEN[name], codec)

    assert refusal(batch).code is ErrorCode.INVALID_RECORD
    unvalidated = LogConfig(validate_records=False)
    if name in SEEN_IN_THE_HEADER and (codec is Compression.NONE or "2^31" in name):
        assert refusal(batch, unvalidated).code is ErrorCode.INVALID_RECORD
    else:
        validate_batch(batch, config=unvalidated, now_ms=NOW_MS)


COUNTED = [name for name in BROKEN if not re.search("delta|header|key", name)]


@pytest.mark.parametrize("name", COUNTED)
def test_without_a_compiler_the_lengths_and_counts_of_all_records_are_checked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_walk, "IS_COMPILED", False)
    content, count = BROKEN[name]
    sound = b"".join(record(delta) for delta in range(100))
    behind = damaged(sound + content, min(count + 100, 2**31 - 1))

    assert refusal(behind).code is ErrorCode.INVALID_RECORD
    assert refusal(damaged(content, count)).code is ErrorCode.INVALID_RECORD
    validate_batch(damaged(sound, 100), config=LogConfig(), now_ms=NOW_MS)


def test_without_a_compiler_every_record_of_a_compacted_topic_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_walk, "IS_COMPILED", False)
    late = damaged(b"".join(record(delta) for delta in range(99)) + record(99, key=b"\x01"), 100)
    wrong = damaged(b"".join(record(delta) for delta in range(99)) + record(98), 100)

    assert refusal(late, LogConfig(cleanup_policy=("compact",))).code is ErrorCode.INVALID_RECORD
    assert refusal(wrong, LogConfig(cleanup_policy=("compact",))).code is ErrorCode.INVALID_RECORD
    validate_batch(wrong, config=LogConfig(), now_ms=NOW_MS)


@pytest.mark.parametrize(
    "content",
    [
        record(0, headers=b"\x02\x02h\x01"),  # a header without a value
        record(0, headers=b"\x02\x02\xff\0"),  # a header whose key is not UTF-8
        record(0, key=b"\x03"),  # a length of -2 is null, too
        b"\x10\xff" + record(0)[2:],  # attributes that are not used yet
        b"\x90\x80\x80\x80\0" + record(0)[1:],  # a length in more bytes than needed
    ],
)
def test_records_that_apache_kafka_accepts_are_accepted(content: bytes) -> None:
    valid = validate_batch(damaged(content, 1), config=LogConfig(), now_ms=NOW_MS)

    assert len(list(iterate_records(valid.batch))) == 1


@pytest.mark.parametrize("codec", [one for one in Compression if one is not Compression.NONE])
@pytest.mark.parametrize("data", [b"\xee" * 60, bytes(60), b"\xee"])
@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": ("compact",)}])
def test_garbage_marked_as_compressed_is_rejected(
    codec: Compression, data: bytes, settings: dict[str, Any]
) -> None:
    batch = seal_batch(read_header(build_batch(ROWS[:1], compression=codec)), data)

    assert refusal(batch, LogConfig(**settings)).code is ErrorCode.UNKNOWN_SERVER_ERROR
    at_once = {"config": LogConfig(**settings), "now_ms": NOW_MS, "produce_version": 9}
    assert validate_at_once(batch, **at_once) is None, "a thread checks it, and returns the error"


def stored(content: bytes) -> bytes:
    """Return an lz4 block that is stored without compression."""
    return (len(content) | 0x80000000).to_bytes(4, "little") + content


FRAME_HEAD = compress(Compression.LZ4, b"")[:7]
RECORDS = [record(0), record(1)]
FOREIGN_FRAMES = {
    "a stored block of nothing": FRAME_HEAD
    + stored(RECORDS[0])
    + stored(b"")
    + stored(RECORDS[1])
    + bytes(4),
    "a block that opens to nothing": FRAME_HEAD
    + stored(RECORDS[0])
    + b"\x01\0\0\0\0"
    + stored(RECORDS[1])
    + bytes(4),
}


def test_lz4_blocks_that_are_not_compressed_are_accepted() -> None:
    frame = FRAME_HEAD + b"".join(map(stored, RECORDS)) + bytes(4)

    valid = validate_batch(lz4_batch(frame), config=LogConfig(), now_ms=NOW_MS)

    assert len(list(iterate_records(valid.batch))) == 2


@pytest.mark.parametrize("name", FOREIGN_FRAMES)
def test_an_lz4_frame_that_kafkas_java_reader_cannot_open_is_rejected(name: str) -> None:
    """The library opens it, but Java consumers would be stuck at it."""
    batch = lz4_batch(FOREIGN_FRAMES[name])

    assert refusal(batch).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert validate_at_once(batch, config=LogConfig(), now_ms=NOW_MS, produce_version=9) is None
    assert plain_header(memoryview(batch), 10**6, 0, 2**62, True) is None


def test_linked_lz4_blocks_are_rejected_as_in_kafka() -> None:
    count = 10_000  # several blocks of 64 KiB
    content = b"".join(map(record, range(count)))

    for linked, code in ((False, None), (True, ErrorCode.UNKNOWN_SERVER_ERROR)):
        batch = lz4_batch(lz4.frame.compress(content, block_linked=linked), count)
        if code is None:
            validate_batch(batch, config=LogConfig(), now_ms=NOW_MS)
        else:
            assert refusal(batch).code is code


def lz4_batch(frame: bytes, count: int = len(RECORDS)) -> bytearray:
    """Return a batch of `count` records whose compressed content is `frame`."""
    return seal_batch(read_header(damaged(b"", count, Compression.LZ4)), frame)


def test_the_fast_path_obeys_the_limit_of_decompressed_bytes() -> None:
    batch = memoryview(
        build_batch([(b"k", Random(1).randbytes(20_000), NOW_MS, ())], compression=Compression.LZ4)
    )

    for limit, is_plain in ((30_000, True), (1_000, False)):
        found = plain_header(batch, 10**6, 0, 2**62, True, max_opened_bytes=limit)
        assert (found is not None) == is_plain


@pytest.mark.parametrize("codec", Compression)
def test_a_wrong_max_timestamp_in_the_header_is_corrected(codec: Compression) -> None:
    content = record(0) + record(1, timestamp_delta=50)
    for claimed_ms in (NOW_MS, NOW_MS + 500, NOW_MS + 100 * HOUR_MS, -1):
        valid = validate_batch(
            damaged(content, 2, codec, max_timestamp=claimed_ms), config=LogConfig(), now_ms=NOW_MS
        )

        assert check_batch(valid.batch) == valid.header
        assert valid.header.max_timestamp == NOW_MS + 50


def test_a_base_timestamp_out_of_range_is_accepted_if_the_records_are_valid() -> None:
    far = NOW_MS + 100 * HOUR_MS
    batch = damaged(record(0, timestamp_delta=-100 * HOUR_MS), 1, base_timestamp=far)

    assert validate_batch(batch, config=LogConfig(), now_ms=NOW_MS).header.max_timestamp == NOW_MS


def test_an_error_names_at_most_a_hundred_records_and_damage_takes_precedence() -> None:
    late = b"".join(record(delta, timestamp_delta=2 * HOUR_MS) for delta in range(150))

    error = refusal(damaged(late, 150))

    assert isinstance(error, RecordValidationError) and error.code is ErrorCode.INVALID_TIMESTAMP
    checked = record_walk.fully_checked(150, needs_keys=False)
    assert [one.batch_index for one in error.record_errors] == [*range(min(checked, 100))]
    assert error.record_errors[7].message == (
        f"Timestamp {NOW_MS + 2 * HOUR_MS} of message with offset 7 is out of range."
        f" The timestamp should be within [{NOW_MS - 2**63 + 1}, {NOW_MS + HOUR_MS}]"
    )
    for damage in (record(150)[:-1], b"\x02\0"):  # cut off, too short: seen in every record by both walks
        assert refusal(damaged(late + damage, 151)).code is ErrorCode.INVALID_RECORD
    if record_walk.IS_COMPILED:
        assert refusal(damaged(late + record(0), 151)).code is ErrorCode.INVALID_RECORD
    in_compacted = refusal(damaged(late + record(0), 151), LogConfig(cleanup_policy=("compact",)))
    assert in_compacted.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.SNAPPY])
def test_the_header_is_trusted_if_no_package_opens_the_codec(
    codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = damaged(record(0) + b"\0", 1, codec)
    for name in ("lz4.frame", "cramjam"):
        monkeypatch.setitem(sys.modules, name, None)

    assert bytes(validate_batch(batch, config=LogConfig(), now_ms=NOW_MS).batch) == batch
    error = refusal(batch, LogConfig(cleanup_policy=("compact",)))
    assert error.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [one for one in Compression if one is not Compression.NONE])
def test_work_that_would_hold_up_an_event_loop_is_declined_before_anything_is_opened(
    codec: Compression,
) -> None:
    options: dict[str, Any] = {"config": LogConfig(), "now_ms": NOW_MS, "produce_version": 9}
    small = build_batch([(b"k", bytes(range(200)) * 10, NOW_MS, ())], compression=codec)
    bomb = build_batch([(b"k", bytes(1_000_000), NOW_MS, ())], compression=codec)

    assert validate_at_once(small, **options) == validate_batch(small, config=LogConfig(), now_ms=NOW_MS)
    assert validate_at_once(bomb, **options) is None
    validate_batch(bomb, config=LogConfig(), now_ms=NOW_MS)
    limited = LogConfig(max_decompressed_message_bytes=1000)
    assert validate_at_once(small, **{**options, "config": limited}) is None
    with pytest.raises(KafkaError, match="more than 1000 bytes"):
        validate_batch(small, config=limited, now_ms=NOW_MS)


def test_a_read_only_buffer_is_left_alone() -> None:
    batch = bytes(build_batch(ROWS))

    valid = validate_batch(batch, config=LogConfig(message_timestamp_type="LogAppendTime"), now_ms=NOW_MS)

    assert bytes(valid.batch) != batch
    check_batch(batch)


def test_coordinators_may_write_control_batches() -> None:
    marker = build_batch(ROWS[:1], is_control=True, is_transactional=True, producer_id=1, producer_epoch=0)

    assert refusal(marker).code is ErrorCode.INVALID_RECORD
    assert validate_batch(marker, config=LogConfig(), now_ms=NOW_MS, is_client=False).header.is_control


def zeros(count: int, codec: Compression) -> bytes:
    """Return a batch of `count` records of a hundred kB that compress well."""
    rows: list[NewRecord] = [(b"k", bytes(100_000), NOW_MS, ())] * count
    return bytes(build_batch(rows, compression=codec))


RECOMPRESSIONS = [(one, other) for one in Compression for other in Compression if one is not other]
SETTINGS = {Compression.NONE: "uncompressed"}


@pytest.mark.parametrize(("codec", "target"), RECOMPRESSIONS)
def test_a_batch_is_recompressed_in_pieces_that_readers_can_open(
    codec: Compression, target: Compression
) -> None:
    config = LogConfig(compression_type=SETTINGS.get(target, target.name.lower()), max_message_bytes=2**30)
    rows: list[NewRecord] = [(b"k", bytes(range(256)) * 2_000, NOW_MS + each, ()) for each in range(3)]
    batch = bytes(build_batch(rows, compression=codec))
    pauses: list[int] = []

    valid = validate_batch(batch, config=config, now_ms=NOW_MS, pause=lambda: pauses.append(1))

    header = check_batch(valid.batch)
    assert (header.compression, header.max_timestamp, header) == (target, NOW_MS + 2, valid.header)
    assert list(iterate_records(valid.batch)) == list(iterate_records(batch))
    assert len(pauses) >= 3 * 512_000 // COMPRESSED_AT_ONCE_BYTES


@pytest.mark.parametrize("target", ["gzip", "zstd", "uncompressed"])
def test_a_bomb_is_recompressed_in_the_memory_of_a_batch(target: str) -> None:
    batch = zeros(300, Compression.LZ4 if target == "zstd" else Compression.ZSTD)
    config = LogConfig(compression_type=target)

    def recompress() -> None:
        if target == "uncompressed":
            assert refusal(batch, config).code is ErrorCode.MESSAGE_TOO_LARGE
        else:
            validate_batch(batch, config=config, now_ms=NOW_MS)

    assert peak_bytes(recompress) < 8 * 1024 * 1024


def test_recompression_can_be_stopped_in_the_middle_of_a_batch() -> None:
    config, pauses = LogConfig(compression_type="gzip", max_message_bytes=2**30), count()
    batch = zeros(100, Compression.NONE)

    class Gone(Exception):
        pass

    def pause() -> None:
        if next(pauses) == 3:
            raise Gone

    with pytest.raises(Gone):
        validate_batch(batch, config=config, now_ms=NOW_MS, pause=pause)
