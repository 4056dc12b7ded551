"""The checks of a leader before it appends a batch, and the changes that it makes to the batch.

Every record of a client's batch is checked, as Apache Kafka does: a single batch that consumers cannot open
stops all consumers of its partition. With `validate.records=false` the header is trusted once CRC, sizes and
deltas agree; then records are opened only in compacted topics (each needs a key), in topics with delivery
delays, to name the invalid records of a rejected batch, and if `compression.type` demands another codec.
Error codes are those that Apache Kafka was seen to return, except where Kafka stores a batch that cannot be
read again.

Work that would hold up an event loop is left to a thread: `validate_at_once` soon returns None for it.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.logstore import record_walk
from ottla.logstore.compression import (
    MAX_DECOMPRESSED_BYTES,
    PIECE_BYTES,
    Compression,
    compress_pieces,
    decompress_pieces,
    lz4_frame_end,
)
from ottla.logstore.delivery_delay import refused_delays
from ottla.logstore.log_config import LogConfig
from ottla.logstore.opened_records import NO_PAUSE, OpenedRecords
from ottla.logstore.opener import BorrowedOpener, Opener
from ottla.logstore.pure_record_walk import (
    KEYLESS,
    LENGTH,
    LONG_MIN,
    MIN_RECORD_BYTES,
    TIMESTAMP,
    TOO_LATE,
    VALID,
    walk_lengths,
)
from ottla.logstore.record import seal_batch
from ottla.logstore.record_batch import (
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
from ottla.logstore.record_walk import is_plain, plain_fields, walk
from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.logstore.words.varint import ByteSource

LATEST_PRODUCE_VERSION: Final = 13
FIRST_ZSTD_PRODUCE_VERSION: Final = 7
# The smallest entry of any message format, after base offset and length: anything shorter is not a batch.
MIN_BATCH_LENGTH: Final = 14
MAGIC_POSITION: Final = 16
ATTRIBUTES_POSITION: Final = 22  # their low byte
# A rejected batch may have a million bad records; this many are enough to find the mistake.
MAX_RECORD_ERRORS: Final = 100
# Limits of the work that an event loop does at once. Compressed bytes may decompress into a thousand times as
# many, so the opened size is bounded by the received size: a client cannot cause much work with few bytes
# (256 KiB take 0.5 ms).
MAX_COMPRESSED_AT_ONCE_BYTES: Final = 64 * 1024
MAX_OPENED_AT_ONCE_BYTES: Final = 256 * 1024
OPENED_FROM_ANY_BYTES: Final = 4 * 1024
OPENED_BY_RECEIVED: Final = 16
# A megabyte of these is decompressed in 0.3 ms, which is less than a thread for it costs.
FAST_CODECS: Final = frozenset({int(Compression.LZ4), int(Compression.SNAPPY)})
# Compressing takes ten times as long as decompressing; checking a record in Python takes a hundred times as
# long as in C.
MAX_RECOMPRESSED_AT_ONCE_BYTES: Final = 8 * 1024
COMPRESSED_AT_ONCE_BYTES: Final = 64 * 1024  # between two pauses in a thread: some milliseconds
MAX_PYTHON_AT_ONCE_BYTES: Final = 8 * 1024
# Batches of the usual size, with records of the usual size.
MAX_PLAIN_AT_ONCE_BYTES: Final = 128 * 1024
MAX_USUAL_AT_ONCE_BYTES: Final = 1024 * 1024 + 4 * 1024
MAX_RECORDS_AT_ONCE: Final = 16 * 1024
MAX_OFFSET: Final = 2**63 - 2  # the log end offset after it must fit in 64 bits
_NO_LIMIT_MS: Final = 2**63 - 1
_NO_LIMIT_BYTES: Final = 2**31 - 1
_RECORDS_COUNT = struct.Struct(">i")
_RECORDS_COUNT_POSITION: Final = 57
_ZSTD: Final = int(Compression.ZSTD)
_TARGETS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
# The error message of a batch with invalid records. An invalid timestamp takes precedence.
_REJECTIONS = {
    ErrorCode.INVALID_RECORD: (
        "One or more records have been rejected: compacted topics need a key in every record"
    ),
    ErrorCode.INVALID_TIMESTAMP: "One or more records have been rejected due to invalid timestamp",
}
_DELAY_REJECTIONS = {
    ErrorCode.INVALID_RECORD: (
        "One or more records have been rejected: their header ottla.deliver.at or ottla.deliver.after.ms is "
        "not a number"
    ),
    ErrorCode.INVALID_TIMESTAMP: (
        "One or more records have been rejected: they are due further ahead than ottla.delivery.delay.max.ms "
        "of the topic allows"
    ),
}


class RecordError(NamedTuple):
    """The index of a rejected record in its batch, and the reason (Produce v8 and later)."""

    batch_index: int
    message: str


class RecordValidationError(KafkaError):
    """A KafkaError with the records that caused it."""

    def __init__(self, code: ErrorCode, detail: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors


class _TooMuchAtOnce(Exception):
    """The batch takes too long to open on the event loop of the caller."""


class ValidBatch(NamedTuple):
    """A batch that is ready to be appended: its header, and its bytes, which may be the caller's."""

    header: BatchHeader
    batch: ByteSource


def validate_batch(
    records: ByteSource | None,
    *,
    config: LogConfig,
    now_ms: int,
    produce_version: int = LATEST_PRODUCE_VERSION,
    is_client: bool = True,
    pause: Callable[[], None] = NO_PAUSE,
) -> ValidBatch:
    """Return the one batch in `records`, checked, and changed as the topic's settings demand.

    Raises INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP,
    UNSUPPORTED_COMPRESSION_TYPE, or UNKNOWN_SERVER_ERROR if compressed records cannot be opened. If single
    records are at fault, the error is a `RecordValidationError` with `record_errors`. A torn batch after the
    first is dropped. Batches of a coordinator (not `is_client`) may be control batches, and of the topic's
    settings only max.message.bytes applies to them. Records are decompressed and recompressed a piece at a
    time; `pause` is called before each piece, and may raise.
    """
    return _validate(records, config, now_ms, produce_version, is_client, at_once=False, pause=pause)


def validate_at_once(
    records: ByteSource | None, *, config: LogConfig, now_ms: int, produce_version: int
) -> ValidBatch | None:
    """Validate a client's batch as `validate_batch` does; return None if that would hold up an event loop."""
    try:
        return _validate(records, config, now_ms, produce_version, True, at_once=True)
    except _TooMuchAtOnce:
        return None


def _validate(
    records: ByteSource | None,
    config: LogConfig,
    now_ms: int,
    produce_version: int,
    is_client: bool,
    *,
    at_once: bool,
    pause: Callable[[], None] = NO_PAUSE,
) -> ValidBatch:
    header, view = _read_batch(records)
    # Every batch passes here: unpacking the whole header costs as much as reading three of its attributes.
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
        raise _invalid(f"Message format {magic} is not supported: use format 2.")
    codec = attributes & COMPRESSION_MASK
    # Apache Kafka makes this check of the request before any check of the batch in it.
    if is_client and codec == _ZSTD and produce_version < FIRST_ZSTD_PRODUCE_VERSION:
        raise _unsupported(codec, produce_version)
    if is_client and base_offset != 0:
        raise _invalid(f"The base offset of a batch from a producer must be 0, but it is {base_offset}.")
    if size_bytes > config.max_message_bytes:
        raise _too_large(size_bytes, config)
    is_opened = codec and config.opens_records
    if at_once and is_opened and not _room_at_once(codec, size_bytes - HEADER_SIZE, records_count):
        raise _TooMuchAtOnce  # A thread opens the batch and checks its CRC.
    if crc32c(view[CRC_START:]) != crc:
        raise _corrupt("The CRC of the batch does not match.")
    if last_offset_delta < 0 or last_offset_delta != records_count - 1:
        raise _invalid(
            f"The batch counts {records_count} records, but its last offset delta is {last_offset_delta}."
        )
    if not is_client:
        return ValidBatch(header, view)
    if records_count > _most_records(attributes, size_bytes):
        raise _invalid(f"A batch of {size_bytes} bytes cannot have {records_count} records.")
    if attributes & CONTROL_BIT:
        raise _invalid("Clients must not write control batches.")
    if producer_id >= 0 and base_sequence < 0:
        raise _invalid(
            f"Producer {producer_id} sent a batch with the sequence {base_sequence}, which is not valid."
        )
    if codec > _ZSTD:
        raise _unsupported(codec, produce_version)
    return _apply_settings(header, view, config, now_ms, at_once, pause)


def plain_header(
    view: memoryview,
    max_bytes: int,
    earliest_ms: int,
    latest_ms: int,
    checks_records: bool,
    latest_codec: int = _ZSTD,
    max_opened_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> tuple[int, ...] | None:
    """Return the header fields of a client's batch that `validate_batch` would accept unchanged, or None.

    This is the fast path for plain batches; after None, `validate_batch` finds the error or makes the change.
    A plain batch has timestamps between `earliest_ms` and `latest_ms`, a codec up to `latest_codec`, and
    records that decompress into at most `max_opened_bytes`. The arguments are positional because keywords
    cost time, and small batches are frequent.
    """
    fields = plain_fields(view, max_bytes, earliest_ms, latest_ms, latest_codec)
    if fields is None:
        return None
    _, _, _, _, crc, codec, _, base_ms, max_ms, _, _, _, count = fields
    room = 0
    if codec and checks_records:
        room = min(_room_at_once(codec, len(view) - HEADER_SIZE, count), max_opened_bytes)
        if not room:
            return None  # A thread opens the batch and checks its CRC.
    if crc32c(view[CRC_START:]) != crc:
        return None
    if not checks_records:
        return fields if count <= _most_records(codec, len(view)) else None
    if codec:
        with BorrowedOpener() as opener:
            content = opener.open(Compression(codec), view[HEADER_SIZE:], room)
            if content and is_plain(content, 0, count, base_ms, max_ms, earliest_ms, latest_ms):
                return fields
            return None
    # Most batches are small, which is decided here without a call.
    is_small = len(view) <= MAX_PYTHON_AT_ONCE_BYTES or is_small_walk(len(view), count)
    is_valid = is_small and is_plain(view, HEADER_SIZE, count, base_ms, max_ms, earliest_ms, latest_ms)
    return fields if is_valid else None


def _most_records(attributes: int, size_bytes: int) -> int:
    """Return the largest number of records that a batch of this size can have, opened or not."""
    opened_bytes = MAX_DECOMPRESSED_BYTES if attributes & COMPRESSION_MASK else size_bytes - HEADER_SIZE
    return opened_bytes // MIN_RECORD_BYTES


def _room_at_once(codec: int, size_bytes: int, count: int) -> int:
    """Return the limit for decompressing `count` records in `size_bytes` on an event loop; 0: not there."""
    received, opened = MAX_COMPRESSED_AT_ONCE_BYTES, MAX_OPENED_AT_ONCE_BYTES
    if codec in FAST_CODECS and count <= MAX_RECORDS_AT_ONCE and record_walk.IS_COMPILED:
        received = opened = MAX_USUAL_AT_ONCE_BYTES
    if size_bytes > received:
        return 0
    return min(opened, OPENED_FROM_ANY_BYTES + OPENED_BY_RECEIVED * size_bytes)


def most_opened_at_once(records: ByteSource) -> int:
    """Return the most bytes that `validate_at_once` (de)compresses of a batch that `may_take_long`."""
    size_bytes, codec = len(records), records[ATTRIBUTES_POSITION] & COMPRESSION_MASK
    count = _RECORDS_COUNT.unpack_from(records, _RECORDS_COUNT_POSITION)[0]
    room = _room_at_once(codec, size_bytes, count) if codec else 0
    return room or OPENED_BY_RECEIVED * size_bytes


def is_small_walk(size_bytes: int, count: int) -> bool:
    """Return True if `count` uncompressed records in `size_bytes` are checked in a millisecond or two."""
    if not record_walk.IS_COMPILED:
        return size_bytes <= MAX_PYTHON_AT_ONCE_BYTES
    return size_bytes <= MAX_PLAIN_AT_ONCE_BYTES or (
        size_bytes <= MAX_USUAL_AT_ONCE_BYTES and count <= MAX_RECORDS_AT_ONCE
    )


def may_take_long(records: ByteSource | None, config: LogConfig) -> bool:
    """Return True if `validate_batch` would decompress records, compress many bytes, or check very many."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC:
        return False
    codec, size_bytes = records[ATTRIBUTES_POSITION] & COMPRESSION_MASK, len(records)
    target = _TARGETS.get(config.compression_type)
    if target is not None and target != codec:
        return codec != 0 or size_bytes > MAX_RECOMPRESSED_AT_ONCE_BYTES
    if not config.opens_records:
        return False
    return codec != 0 or not is_small_walk(
        size_bytes, _RECORDS_COUNT.unpack_from(records, _RECORDS_COUNT_POSITION)[0]
    )


def latest_codec(produce_version: int) -> int:
    """Return the highest codec that a client may use in this version of Produce."""
    return _ZSTD if produce_version >= FIRST_ZSTD_PRODUCE_VERSION else _ZSTD - 1


def stores_unchanged(config: LogConfig) -> bool:
    """Return True if a valid batch is stored unchanged under the topic's settings."""
    return (
        config.compression_type == "producer"
        and config.message_timestamp_type == "CreateTime"
        and not config.compact
        and not config.ottla_delivery_delay_enable
    )


def accepted_timestamps(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """Return the earliest and the latest timestamp that a client may send besides NO_TIMESTAMP."""
    return (
        max(now_ms - config.message_timestamp_before_max_ms, LONG_MIN),
        min(now_ms + config.message_timestamp_after_max_ms, _NO_LIMIT_MS),
    )


def _read_batch(records: ByteSource | None) -> tuple[BatchHeader, memoryview]:
    if records is None:
        raise _invalid("The batch has no records.")
    view = records if type(records) is memoryview else memoryview(records)
    length = len(view)
    if length < HEADER_SIZE:
        raise _invalid(f"{length} bytes are too short for a batch.")
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(view))  # as _make, without its check of the length
    size_bytes = LOG_OVERHEAD + header.batch_length
    if header.magic != MAGIC or size_bytes < HEADER_SIZE:
        _check_start(header.batch_length, header.magic)
    if size_bytes > length:
        raise _invalid(f"The header of the batch gives a size of {size_bytes} bytes, but {length} were sent.")
    if size_bytes < HEADER_SIZE and header.magic == MAGIC:
        raise _corrupt(f"A batch of {size_bytes} bytes is shorter than its header.")
    following = length - size_bytes
    if following >= LOG_OVERHEAD:
        tail = view[size_bytes:]
        next_length = int.from_bytes(tail[8:LOG_OVERHEAD], "big", signed=True)
        _check_start(next_length, tail[MAGIC_POSITION] if following > MAGIC_POSITION else MAGIC)
        if next_length + LOG_OVERHEAD <= following:
            raise _invalid("A produce request must have exactly one batch for each partition.")
    return header, view[:size_bytes] if following else view


def _check_start(batch_length: int, magic: int) -> None:
    """Raise CORRUPT_MESSAGE for the start of a whole or torn batch that is not one of any format."""
    if batch_length < MIN_BATCH_LENGTH:
        raise _corrupt(f"A batch length of {batch_length} bytes is too small.")
    if not 0 <= magic <= MAGIC:
        raise _corrupt(f"Batch format {magic} is unknown.")


def _apply_settings(
    header: BatchHeader,
    view: memoryview,
    config: LogConfig,
    now_ms: int,
    at_once: bool,
    pause: Callable[[], None],
) -> ValidBatch:
    target = _TARGETS.get(config.compression_type)
    if target is not None and target == header.attributes & COMPRESSION_MASK:
        target = None
    largest = None
    if target is not None or config.opens_records:
        if not at_once and (target is not None or header.attributes & COMPRESSION_MASK):
            largest = _check_pieces(header, view, config, now_ms, target, pause)
            if config.ottla_delivery_delay_enable and largest is not None:
                limit = _max_opened_bytes(config)
                codec = Compression(header.attributes & COMPRESSION_MASK)
                opened = OpenedRecords(codec, view[HEADER_SIZE:], max_bytes=limit, pause=pause)
                _check_delays(header, opened, config, now_ms)
            if target is not None:
                header, view = _recompressed(header, _pieces(header, view, config, pause), target, config)
        else:
            with BorrowedOpener() as opener:
                content = _opened(opener, header, view, config, target, at_once)
                largest = _check_whole(header, content, config, now_ms)
                if config.ottla_delivery_delay_enable:
                    _check_delays(header, OpenedRecords(Compression.NONE, content), config, now_ms)
                if target is not None:
                    header, view = _recompressed(header, [content], target, config)
    if config.message_timestamp_type == "LogAppendTime":
        if header.attributes & LOG_APPEND_TIME_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                "A producer must not send batches of timestamp type LogAppendTime.",
            )
        return _stamped(view, TimestampType.LOG_APPEND_TIME, now_ms)
    base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
    is_stamped = header.attributes & LOG_APPEND_TIME_BIT
    if largest is not None and not is_stamped:
        if largest != max_timestamp:
            return _stamped(view, TimestampType.CREATE_TIME, largest)
        return tuple.__new__(ValidBatch, (header, view))  # faster than with keywords
    if not _is_in_window(max_timestamp, config, now_ms) or (
        base_timestamp != max_timestamp and not _is_in_window(base_timestamp, config, now_ms)
    ):
        raise _out_of_window(header, view, config, now_ms)
    if is_stamped:
        return _stamped(view, TimestampType.CREATE_TIME, max_timestamp)
    return tuple.__new__(ValidBatch, (header, view))


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
    """Return the error for timestamps in the header, with the records at fault if they are found quickly."""
    try:
        with BorrowedOpener() as opener:
            content = _opened(opener, header, view, config, None, at_once=True)
            if not header.attributes & LOG_APPEND_TIME_BIT:
                _check_whole(header, content, config, now_ms)
    except (_TooMuchAtOnce, KafkaError) as refusal:
        if isinstance(refusal, RecordValidationError):
            return kept(refusal)
    # The timestamp in the header is wrong, those of the records are not: the batch is rejected all the same.
    return RecordValidationError(
        ErrorCode.INVALID_TIMESTAMP,
        _REJECTIONS[ErrorCode.INVALID_TIMESTAMP],
        (RecordError(0, _window_message(0, header.max_timestamp, config, now_ms)),),
    )


def _window_message(index: int, timestamp: int, config: LogConfig, now_ms: int) -> str:
    earliest, latest = accepted_timestamps(config, now_ms)
    return (
        f"Timestamp {timestamp} of message with offset {index} is out of range."
        f" The timestamp should be within [{earliest}, {latest}]"
    )


def _opened(
    opener: Opener,
    header: BatchHeader,
    view: memoryview,
    config: LogConfig,
    target: Compression | None,
    at_once: bool,
) -> ByteSource:
    """Return the decompressed records of a batch; compressed ones are opened here only `at_once`."""
    codec = header.attributes & COMPRESSION_MASK
    records = view[HEADER_SIZE:]
    size_bytes = len(records)
    if codec == 0:
        if at_once and not (
            is_small_walk(len(view), header.records_count)
            if target is None
            else size_bytes <= MAX_RECOMPRESSED_AT_ONCE_BYTES
        ):
            raise _TooMuchAtOnce
        return records
    room = _room_at_once(codec, size_bytes, header.records_count)
    if target is not None:
        room = min(room, MAX_RECOMPRESSED_AT_ONCE_BYTES)
    room = min(room, _max_opened_bytes(config))
    content = opener.open(Compression(codec), records, room)
    if not content:
        raise _TooMuchAtOnce  # or the batch is damaged, which a thread decides
    return content


def _check_pieces(
    header: BatchHeader,
    view: memoryview,
    config: LogConfig,
    now_ms: int,
    target: Compression | None,
    pause: Callable[[], None],
) -> int | None:
    """Check records as they are decompressed; return the result of `_check_records`.

    None if the package for their codec is not installed and nothing but this check needs it.
    """
    codec, limit = Compression(header.attributes & COMPRESSION_MASK), _max_opened_bytes(config)
    records = view[HEADER_SIZE:]
    with BorrowedOpener() as opener:
        if content := opener.open(codec, records, limit):
            for _ in range(0, len(content), PIECE_BYTES):
                pause()
            return _check_whole(header, content, config, now_ms)
    try:
        if codec is Compression.LZ4:
            lz4_frame_end(records)
        opened = OpenedRecords(codec, records, max_bytes=limit, pause=pause)
        return _check_records(header, opened, config, now_ms)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE and target is None and not config.compact:
            return None
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        # As in Apache Kafka: after CORRUPT_MESSAGE, a retriable error, the client would retry forever.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.detail) from None


def _pieces(
    header: BatchHeader, view: memoryview, config: LogConfig, pause: Callable[[], None]
) -> Iterator[ByteSource]:
    """Yield the records of a batch that was checked, with a pause before each piece."""
    codec, records = Compression(header.attributes & COMPRESSION_MASK), view[HEADER_SIZE:]
    for piece in decompress_pieces(codec, records, max_bytes=_max_opened_bytes(config)):
        # Uncompressed records are one large piece, and compressing takes ten times as long as decompressing.
        for start in range(0, len(piece), COMPRESSED_AT_ONCE_BYTES):
            pause()
            yield memoryview(piece)[start : start + COMPRESSED_AT_ONCE_BYTES]


def _max_opened_bytes(config: LogConfig) -> int:
    return min(MAX_DECOMPRESSED_BYTES, config.max_decompressed_message_bytes)


def _check_whole(header: BatchHeader, content: ByteSource, config: LogConfig, now_ms: int) -> int | None:
    """Check records that are all decompressed; return the result of `_check_records`."""
    count = header.records_count
    if record_walk.IS_COMPILED:
        # One call suffices if nothing is wrong; otherwise a second check finds the error message.
        earliest, latest = _accepted_timestamps_of(header, config, now_ms)
        rest = (header.base_timestamp, earliest, latest, config.compact)
        problem, _, end, largest = walk(content, 0, 0, count, count, _NO_LIMIT_BYTES, *rest)
        if problem == VALID and end == len(content):
            return largest
    return _check_records(header, OpenedRecords(Compression.NONE, content), config, now_ms)


def _accepted_timestamps_of(header: BatchHeader, config: LogConfig, now_ms: int) -> tuple[int, int]:
    """Return the earliest and the latest timestamp that the records of a batch may have."""
    if config.log_append_time or header.attributes & LOG_APPEND_TIME_BIT:
        return LONG_MIN, _NO_LIMIT_MS
    return accepted_timestamps(config, now_ms)


def _check_records(header: BatchHeader, opened: OpenedRecords, config: LogConfig, now_ms: int) -> int | None:
    """Check the records; return their largest timestamp, or None if not all timestamps were read."""
    count, max_bytes = header.records_count, _NO_LIMIT_BYTES
    needs_keys = config.compact
    earliest, latest = _accepted_timestamps_of(header, config, now_ms)
    fully_checked = record_walk.fully_checked(count, needs_keys=needs_keys)
    rest = (header.base_timestamp, earliest, latest, needs_keys)
    code, errors = ErrorCode.INVALID_RECORD, list[RecordError]()
    index, largest = 0, LONG_MIN
    while True:
        problem, index, opened.position, found = walk(
            opened.content, opened.position, index, count, fully_checked - index, max_bytes, *rest
        )
        if problem == KEYLESS:
            errors.append(RecordError(index, "Compacted topic cannot accept message without key."))
        elif problem == TIMESTAMP:
            code = ErrorCode.INVALID_TIMESTAMP
            errors.append(RecordError(index, _window_message(index, found, config, now_ms)))
        else:
            largest = max(largest, found)
            if problem == VALID:
                break
            if problem != LENGTH or not opened.more():
                raise _invalid(record_walk.describe_problem(problem, index))
            continue
        index += 1
        if len(errors) == MAX_RECORD_ERRORS:
            rest = (header.base_timestamp, LONG_MIN, _NO_LIMIT_MS, False)
    while index < count:
        problem, index, opened.position = walk_lengths(opened.content, opened.position, index, count)
        if problem != VALID and not opened.more():
            raise _invalid(record_walk.describe_problem(problem, index))
    if not opened.is_at_end():
        raise _invalid(f"{opened.left_bytes()} bytes follow the {count} records of the batch.")
    if errors:
        raise RecordValidationError(code, _REJECTIONS[code], tuple(errors))
    return largest if fully_checked == count else None


def _check_delays(header: BatchHeader, opened: OpenedRecords, config: LogConfig, now_ms: int) -> None:
    """Raise RecordValidationError if the delay of a record is not a number or too long."""
    errors = list[RecordError]()
    code = ErrorCode.INVALID_RECORD
    for index, problem in refused_delays(header, opened, config, now_ms):
        if problem == TOO_LATE:
            code = ErrorCode.INVALID_TIMESTAMP
        errors.append(RecordError(index, record_walk.describe_problem(problem, index)))
        if len(errors) == MAX_RECORD_ERRORS:
            break
    if errors:
        raise RecordValidationError(code, _DELAY_REJECTIONS[code], tuple(errors))


def _recompressed(
    header: BatchHeader, pieces: Iterable[ByteSource], target: Compression, config: LogConfig
) -> tuple[BatchHeader, memoryview]:
    level = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }.get(target)
    attributes = header.attributes & ~COMPRESSION_MASK | target
    try:
        records = compress_pieces(
            target, pieces, level, max_bytes=max(config.max_message_bytes - HEADER_SIZE, 0)
        )
    except KafkaError as error:
        if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
            raise
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"With compression.type {target.name.lower()} the batch would be larger "
            f"than max.message.bytes, {config.max_message_bytes}.",
        ) from None
    batch = seal_batch(header._replace(attributes=attributes), records)
    return BatchHeader._make(HEADER.unpack_from(batch)), memoryview(batch)


def _corrupt(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)


def check_follower_batches(
    view: memoryview, next_offset: int, topic_partition: TopicPartition
) -> list[tuple[int, BatchHeader]]:
    """Return (position, header) of each whole batch that a leader sent, to be appended from `next_offset` on.

    CORRUPT_MESSAGE if a batch is not valid, OFFSET_OUT_OF_RANGE if offsets do not grow. A torn last batch is
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
                f"{topic_partition} ends at offset {next_offset}, but the leader sent "
                f"offset {header.base_offset}.",
            )
        headers.append((position, header))
        position, next_offset = position + header.size_bytes, header.next_offset
    return headers


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, detail)


def _unsupported(codec: int, produce_version: int) -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"Compression {codec} is not supported in Produce version {produce_version}: "
        "use a newer client, or another compression.",
    )


def _too_large(size_bytes: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"A batch of {size_bytes} bytes is larger than max.message.bytes, {config.max_message_bytes}.",
    )
