"""What a leader checks before it appends a batch, and what it changes in it.

The header is believed once CRC, sizes and deltas agree: every client writes it correctly, and opening the
records costs a hundred times more than all else in an append. They are opened for compacted topics (each
needs a key), with `validate.records=true`, to name the records of a refused batch, and recompressed where
`compression.type` asks for another codec. Codes are those that Apache Kafka answered when it was asked.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from logstore.compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress
from logstore.errors import ErrorCode, KafkaError
from logstore.log_config import LogConfig
from logstore.record import Record, iterate_records, seal_batch
from logstore.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    check_batch,
    patch_timestamp,
)
from logstore.topic_partition import TopicPartition
from logstore.varint import ByteSource

LATEST_PRODUCE_VERSION: Final = 13
FIRST_ZSTD_PRODUCE_VERSION: Final = 7
# The smallest entry that any format had, after base offset and length: what is less is no batch at all.
MIN_BATCH_LENGTH: Final = 14
MAGIC_POSITION: Final = 16
ATTRIBUTES_POSITION: Final = 22  # their low byte
# A refused batch may have a million bad records; these many are enough to find the mistake.
MAX_RECORD_ERRORS: Final = 100
MAX_OFFSET: Final = 2**63 - 2  # the log end offset after it must fit in 64 bits
_NO_LIMIT_MS: Final = 2**63 - 1
_ZSTD: Final = int(Compression.ZSTD)
_TARGETS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
# What is said of a whole batch in which some records are at fault; a timestamp's is said first.
_REFUSALS = {
    ErrorCode.INVALID_RECORD: (
        "One or more records have been rejected: compacted topics need a key in every record"
    ),
    ErrorCode.INVALID_TIMESTAMP: "One or more records have been rejected due to invalid timestamp",
}


class RecordError(NamedTuple):
    """Why one record of a batch was refused (Produce v8 and later)."""

    batch_index: int
    message: str


class RecordsRefused(KafkaError):
    """A KafkaError that knows the records which caused it."""

    def __init__(self, code: ErrorCode, detail: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors


class ValidBatch(NamedTuple):
    """A batch fit to be appended: its header, and its bytes, which may be the caller's."""

    header: BatchHeader
    batch: ByteSource


def validate_batch(
    records: ByteSource | None,
    *,
    config: LogConfig,
    now_ms: int,
    produce_version: int = LATEST_PRODUCE_VERSION,
    is_client: bool = True,
) -> ValidBatch:
    """The one batch in `records`, checked, and changed as the topic's settings demand.

    Raises INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP or
    UNSUPPORTED_COMPRESSION_TYPE; with `RecordsRefused.record_errors` where single records are at fault. A
    torn batch after the first is dropped. Batches of a coordinator (not `is_client`) may be control batches
    and are not held to topic settings.
    """
    header, view = _read_batch(records)
    # Every batch comes by here: taking all of the header apart costs as much as three of its attributes.
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        _,
        base_sequence,
        records_count,
    ) = header
    size_bytes = LOG_OVERHEAD + batch_length
    if magic != MAGIC:
        raise _invalid(f"Message format {magic} is not supported, 2 is.")
    codec = attributes & COMPRESSION_MASK
    # The one thing that Apache Kafka says of a request before it looks at the batch in it.
    if is_client and codec == _ZSTD and produce_version < FIRST_ZSTD_PRODUCE_VERSION:
        raise _unsupported(codec, produce_version)
    if is_client and base_offset != 0:
        raise _invalid(f"The base offset of a batch to append must be 0, it is {base_offset}.")
    if size_bytes > config.max_message_bytes:
        raise _too_large(size_bytes, config)
    if crc32c(view[CRC_START:]) != crc:
        raise _corrupt("The CRC of the batch does not match.")
    if last_offset_delta < 0 or last_offset_delta != records_count - 1:
        raise _invalid(
            f"{records_count} records do not agree with a last offset delta of {last_offset_delta}."
        )
    if not is_client:
        return ValidBatch(header, view)
    if attributes & CONTROL_BIT:
        raise _invalid("Clients must not write control batches.")
    if producer_id >= 0 and base_sequence < 0:
        raise _invalid(f"Producer {producer_id} sent sequence {base_sequence}.")
    if codec > _ZSTD:
        raise _unsupported(codec, produce_version)
    return _apply_settings(header, view, config, now_ms)


def plain_header(
    view: memoryview, *, max_bytes: int, earliest_ms: int, latest_ms: int
) -> tuple[int, ...] | None:
    """The fields of a client's batch that `validate_batch` would take as it is, seen in one look.

    None where there is anything to be said or done: then `validate_batch` says or does it. Timestamps between
    `earliest_ms` and `latest_ms` are taken. `view` has at least the bytes of a header.
    """
    fields = HEADER.unpack_from(view)
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        delta,
        base_ms,
        max_ms,
        producer_id,
        _,
        sequence,
        count,
    ) = fields
    if (
        base_offset == 0
        and magic == MAGIC
        and LOG_OVERHEAD + batch_length == len(view) <= max_bytes
        and 0 <= attributes < _ZSTD  # neither transactional nor control, and each version knows the codec
        and 0 <= delta == count - 1
        and (producer_id < 0 or sequence >= 0)
        and earliest_ms <= base_ms <= latest_ms
        and earliest_ms <= max_ms <= latest_ms
        and crc32c(view[CRC_START:]) == crc
    ):
        return fields
    return None


def must_open(records: ByteSource | None, config: LogConfig) -> bool:
    """Whether `validate_batch` would open the records of this batch, or compress them anew."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC:
        return False
    target = _TARGETS.get(config.compression_type)
    is_other = target is not None and target != records[ATTRIBUTES_POSITION] & COMPRESSION_MASK
    return is_other or config.validate_records or config.compact


def takes_as_it_is(config: LogConfig) -> bool:
    """Whether a topic's settings leave batches unchanged and unopened."""
    return (
        config.compression_type == "producer"
        and config.message_timestamp_type == "CreateTime"
        and not (config.validate_records or config.compact)
    )


def accepted_timestamps(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and the latest timestamp that a client may send, but for NO_TIMESTAMP."""
    return now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms


def _read_batch(records: ByteSource | None) -> tuple[BatchHeader, memoryview]:
    if records is None:
        raise _invalid("There are no records.")
    view = records if type(records) is memoryview else memoryview(records)
    length = len(view)
    if length < HEADER_SIZE:
        raise _invalid(f"{length} bytes are too few for a batch.")
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(view))  # _make, without its check of the length
    size_bytes = LOG_OVERHEAD + header.batch_length
    if header.magic != MAGIC or size_bytes < HEADER_SIZE:
        _check_start(header.batch_length, header.magic)
    if size_bytes > length:
        raise _invalid(f"A batch says that it is {size_bytes} bytes long, {length} are there.")
    if size_bytes < HEADER_SIZE and header.magic == MAGIC:
        raise _corrupt(f"A batch of {size_bytes} bytes is shorter than its header.")
    following = length - size_bytes
    if following >= LOG_OVERHEAD:
        tail = view[size_bytes:]
        next_length = int.from_bytes(tail[8:LOG_OVERHEAD], "big", signed=True)
        _check_start(next_length, tail[MAGIC_POSITION] if following > MAGIC_POSITION else MAGIC)
        if next_length + LOG_OVERHEAD <= following:
            raise _invalid("A partition must be sent exactly one batch.")
    return header, view[:size_bytes] if following else view


def _check_start(batch_length: int, magic: int) -> None:
    """CORRUPT_MESSAGE for what is no batch of any format, whether all of it is there or not."""
    if batch_length < MIN_BATCH_LENGTH:
        raise _corrupt(f"A batch length of {batch_length} is too small.")
    if not 0 <= magic <= MAGIC:
        raise _corrupt(f"Batch format {magic} is unknown.")


def _apply_settings(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> ValidBatch:
    target = _TARGETS.get(config.compression_type)
    if target is not None and target != header.attributes & COMPRESSION_MASK:
        header, view = _recompress(header, view, target, config)
    if config.validate_records or config.compact:
        header, view = _check_records(header, view, config, now_ms)
    if config.message_timestamp_type == "LogAppendTime":
        if header.attributes & LOG_APPEND_TIME_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                "A producer must not send batches of timestamp type LogAppendTime.",
            )
        return _stamped(view, TimestampType.LOG_APPEND_TIME, now_ms)
    base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
    if not _is_in_window(max_timestamp, config, now_ms) or (
        base_timestamp != max_timestamp and not _is_in_window(base_timestamp, config, now_ms)
    ):
        raise _out_of_window(header, view, config, now_ms)
    if header.attributes & LOG_APPEND_TIME_BIT:
        return _stamped(view, TimestampType.CREATE_TIME, max_timestamp)
    return tuple.__new__(ValidBatch, (header, view))  # without the detour over its keywords


def _stamped(view: memoryview, timestamp_type: TimestampType, max_timestamp: int) -> ValidBatch:
    batch = bytearray(view) if view.readonly else view
    patch_timestamp(batch, timestamp_type, max_timestamp)
    return ValidBatch(BatchHeader._make(HEADER.unpack_from(batch)), batch)


def _is_in_window(timestamp: int, config: LogConfig, now_ms: int) -> bool:
    if timestamp == NO_TIMESTAMP:
        return True
    return (
        timestamp - now_ms <= config.message_timestamp_after_max_ms
        and now_ms - timestamp <= config.message_timestamp_before_max_ms
    )


def _out_of_window(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> KafkaError:
    errors = [
        RecordError(index, _window_message(record.timestamp, config, now_ms))
        for index, record in enumerate(_open(header, view, config))
        if not _is_in_window(record.timestamp, config, now_ms)
    ]
    if not errors:  # The header lies, its records do not: still not a batch to take.
        errors = [RecordError(0, _window_message(header.max_timestamp, config, now_ms))]
    return RecordsRefused(
        ErrorCode.INVALID_TIMESTAMP,
        _REFUSALS[ErrorCode.INVALID_TIMESTAMP],
        tuple(errors[:MAX_RECORD_ERRORS]),
    )


def _window_message(timestamp: int, config: LogConfig, now_ms: int) -> str:
    earliest, latest = accepted_timestamps(config, now_ms)
    return (
        f"Timestamp {timestamp} is out of range: it must be within [{max(earliest, -_NO_LIMIT_MS)}, {latest}]"
    )


def _open(header: BatchHeader, view: memoryview, config: LogConfig) -> Iterator[Record]:
    try:
        yield from iterate_records(view, max_decompressed_bytes=_max_opened_bytes(config))
    except KafkaError as error:
        # A client's batch that does not open is the client's fault, whatever a file's would be.
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            raise
        raise _invalid(error.detail) from None


def _max_opened_bytes(config: LogConfig) -> int:
    return min(MAX_DECOMPRESSED_BYTES, config.max_decompressed_message_bytes)


def _check_records(
    header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int
) -> tuple[BatchHeader, memoryview]:
    largest = NO_TIMESTAMP
    code = ErrorCode.INVALID_RECORD
    errors: list[RecordError] = []
    for index, record in enumerate(_open(header, view, config)):
        if record.offset - header.base_offset != index:
            raise _invalid(
                f"Record {index} of the batch has offset delta {record.offset - header.base_offset}."
            )
        if config.compact and record.key is None:
            if len(errors) < MAX_RECORD_ERRORS:
                errors.append(RecordError(index, "Compacted topic cannot accept message without key."))
        elif not config.log_append_time and not _is_in_window(record.timestamp, config, now_ms):
            code = ErrorCode.INVALID_TIMESTAMP
            if len(errors) < MAX_RECORD_ERRORS:
                errors.append(RecordError(index, _window_message(record.timestamp, config, now_ms)))
        largest = max(largest, record.timestamp)
    if errors:
        raise RecordsRefused(code, _REFUSALS[code], tuple(errors))
    if largest != header.max_timestamp and not header.attributes & LOG_APPEND_TIME_BIT:
        corrected = _stamped(view, TimestampType.CREATE_TIME, largest)
        return corrected.header, memoryview(corrected.batch)
    return header, view


def _recompress(
    header: BatchHeader, view: memoryview, target: Compression, config: LogConfig
) -> tuple[BatchHeader, memoryview]:
    try:
        records = decompress(header.compression, view[HEADER_SIZE:], max_bytes=_max_opened_bytes(config))
    except KafkaError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        # As Apache Kafka. That of a batch that was damaged on its way would be sent again and again.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.detail) from None
    level = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }.get(target)
    attributes = header.attributes & ~COMPRESSION_MASK | target
    batch = seal_batch(header._replace(attributes=attributes), compress(target, records, level))
    if len(batch) > config.max_message_bytes:
        raise _too_large(len(batch), config)
    return BatchHeader._make(HEADER.unpack_from(batch)), memoryview(batch)


def _corrupt(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)


def check_follower_batches(
    view: memoryview, next_offset: int, topic_partition: TopicPartition
) -> list[tuple[int, BatchHeader]]:
    """(position, header) of the whole batches that a leader sent, to be appended as they are from
    `next_offset` on.

    CORRUPT_MESSAGE when one is not valid, OFFSET_OUT_OF_RANGE when offsets do not grow; a torn last one is
    dropped.
    """
    headers: list[tuple[int, BatchHeader]] = []
    position = 0
    while len(view) - position >= HEADER_SIZE:
        length = int.from_bytes(view[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        if length + LOG_OVERHEAD > len(view) - position:
            break
        header = check_batch(view, position)
        if header.base_offset < next_offset or header.last_offset > MAX_OFFSET:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{topic_partition} ends at {next_offset}, the leader sent offset {header.base_offset}.",
            )
        headers.append((position, header))
        position, next_offset = position + header.size_bytes, header.next_offset
    return headers


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, detail)


def _unsupported(codec: int, produce_version: int) -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"Compression {codec} is not supported in Produce version {produce_version}.",
    )


def _too_large(size_bytes: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"A batch of {size_bytes} bytes is larger than max.message.bytes, {config.max_message_bytes}.",
    )
