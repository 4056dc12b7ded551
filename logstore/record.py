"""The records of a batch as objects: for compaction, time look-up, the control plane and the tools.

Produce requests never take this way. A record is: varint length of the rest, i8 attributes (0), varlong
timestamp delta, varint offset delta, key and value as varint length (-1 for null) and bytes, varint count of
headers, each a key and a nullable value.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.logstore.compression import MAX_DECOMPRESSED_BYTES, MAX_ZSTD_WINDOW_BYTES, Compression, compress
from ottla.logstore.opened_records import OpenedRecords, open_records, skip_records
from ottla.logstore.pure_record_walk import LENGTH
from ottla.logstore.record_batch import (
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    read_header,
)
from ottla.logstore.record_walk import describe_problem
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource, append_varint, read_varint, read_varlong

MIN_RECORD_BYTES: Final = 7  # length, attributes, two deltas, two lengths, header count: one byte each
# An empty header takes two bytes of a record and a hundred of memory.
MAX_HEADERS: Final = 10_000
_MAX_DELTA: Final = 2**31 - 1

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record with its absolute offset and timestamp (ms since 1970, -1 for none)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# A record without an offset, which `build_batch` accepts as well: (key, value, timestamp_ms, headers).
NewRecord = tuple[bytes | None, bytes | None, int, Headers]


class ControlType(IntEnum):
    """The type in the key of a control record; the types of KRaft have higher numbers."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """The control record that ends a transaction in a partition."""

    control_type: ControlType
    coordinator_epoch: int


# All markers have one size, and a transaction needs one for each of its partitions: packing it in two calls
# takes a fifth of the time of `build_batch`. The first struct is the header up to the CRC, the second the
# part that the CRC covers. The lengths in the record are varints: 16 bytes follow, no deltas, a key of 4
# bytes and a value of 6.
_MARKER_UNCHECKED = struct.Struct(">qiibI")
_MARKER_CHECKED = struct.Struct(">hiqqqhii 5s hh 1s hi b")
_MARKER_BEFORE_KEY: Final = b"\x20\0\0\0\x08"
_MARKER_BEFORE_VALUE: Final = b"\x0c"
MARKER_SIZE: Final = _MARKER_UNCHECKED.size + _MARKER_CHECKED.size
_CONTROL_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch


def append_record(
    target: bytearray,
    *,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
) -> None:
    """Append the bytes of one record to `target`."""
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_nullable(body, key)
    _append_nullable(body, value)
    append_varint(body, len(headers))
    for name, content in headers:
        _append_nullable(body, name.encode("utf-8", "surrogateescape"))
        _append_nullable(body, content)
    append_varint(target, len(body))
    target += body


def _append_nullable(target: bytearray, content: bytes | None) -> None:
    if content is None:
        target.append(1)  # the varint of -1
    else:
        append_varint(target, len(content))
        target += content


def build_batch(
    records: Iterable[Record | NewRecord],
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Return a batch of `records`, ready to append.

    Tuples (key, value, timestamp_ms, headers) get consecutive offsets from `base_offset` (default 0). Each
    `Record` keeps its own offset, gaps included; then `base_offset` defaults to the first record's offset,
    and `last_offset` may be above the last record's, as compaction needs it. A batch may be empty if both
    offsets are given.
    """
    rows = _as_records(records, base_offset or 0)
    if not rows and (base_offset is None or last_offset is None):
        raise ValueError("an empty batch needs its first and last offset")
    first_offset = rows[0].offset if base_offset is None else base_offset
    if base_timestamp is None:
        base_timestamp = (
            delete_horizon_ms if delete_horizon_ms is not None else rows[0].timestamp if rows else -1
        )
    body = bytearray()
    for row in rows:
        append_record(
            body,
            timestamp_delta=row.timestamp - base_timestamp,
            offset_delta=row.offset - first_offset,
            key=row.key,
            value=row.value,
            headers=row.headers,
        )
    if max_timestamp is None:
        max_timestamp = max((row.timestamp for row in rows), default=base_timestamp)
    content = body if compression is Compression.NONE else compress(compression, body, level)
    attributes = (
        compression
        | (LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
    )
    return seal_batch(
        BatchHeader(
            base_offset=first_offset,
            batch_length=0,
            partition_leader_epoch=partition_leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=(rows[-1].offset if last_offset is None else last_offset) - first_offset,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records_count=len(rows),
        ),
        content,
    )


def _as_records(records: Iterable[Record | NewRecord], base_offset: int) -> list[Record]:
    return [
        record
        if isinstance(record, Record)
        else Record(base_offset + index, record[2], *record[:2], record[3])
        for index, record in enumerate(records)
    ]


def seal_batch(header: BatchHeader, records: ByteSource) -> bytearray:
    """Return header and (compressed) records as one batch, with batch length and CRC computed."""
    batch = bytearray(HEADER_SIZE)
    batch += records
    header = header._replace(batch_length=len(batch) - LOG_OVERHEAD)
    HEADER.pack_into(batch, 0, *header)
    crc = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, *header._replace(crc=crc))
    return batch


def build_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    is_log_append_time: bool = False,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Return the control batch by which the transaction coordinator ends a transaction of `producer_id`."""
    checked = _MARKER_CHECKED.pack(
        TRANSACTIONAL_BIT | CONTROL_BIT | (LOG_APPEND_TIME_BIT if is_log_append_time else 0),
        0,  # last offset delta
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,  # records
        _MARKER_BEFORE_KEY,
        0,
        marker.control_type,
        _MARKER_BEFORE_VALUE,
        0,
        marker.coordinator_epoch,
        0,  # headers
    )
    batch = bytearray(
        _MARKER_UNCHECKED.pack(
            base_offset, MARKER_SIZE - LOG_OVERHEAD, partition_leader_epoch, MAGIC, crc32c(checked)
        )
    )
    batch += checked
    return batch


def parse_marker(record: Record) -> EndTransactionMarker | None:
    """Return the transaction marker in the record of a control batch; None for another control type."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "The key of a control record is too short.")
    version, control_type = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A control record has version {version}.")
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "The value of a transaction marker is too short.")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    if version < 0:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A transaction marker has version {version}.")
    return EndTransactionMarker(ControlType(control_type), coordinator_epoch)


def marker_of_batch(batch: ByteSource) -> EndTransactionMarker | None:
    """Return the transaction marker in a control batch; None if it has another type or is empty.

    Compaction may have removed the marker from the batch.
    """
    for record in iterate_records(batch):
        return parse_marker(record)
    return None


def iterate_records(
    batch: ByteSource, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yield the records of one batch, with absolute offsets and timestamps; decompress as they are read.

    CORRUPT_MESSAGE or INVALID_RECORD for bytes that are not a batch; MESSAGE_TOO_LARGE if they decompress
    into more than `max_decompressed_bytes`, or if a record has more than `MAX_HEADERS`. The CRC is not
    checked.
    """
    header = read_header(batch)
    return _iterate(header, open_records(header, batch, max_bytes=max_decompressed_bytes), 0)


def records_from(
    batch: ByteSource, offset: int, max_window_bytes: int = MAX_ZSTD_WINDOW_BYTES
) -> Iterator[Record | None]:
    """Yield the records of one batch at or after `offset`, as `iterate_records` does.

    Skipping a record before `offset` takes 15 ns; after a millisecond or so of it, None is yielded as a
    pause. MESSAGE_TOO_LARGE also for a batch that is decompressed with a window of more than
    `max_window_bytes`.
    """
    header = read_header(batch)
    opened = open_records(header, batch, max_window_bytes=max_window_bytes)
    # With a false base offset in the header, the difference could be any number.
    index, delta = 0, min(offset - header.base_offset, _MAX_DELTA)
    if delta > 0:
        for at in skip_records(opened, 0, header.records_count, delta):
            index = at
            yield None
    for record in _iterate(header, opened, index):
        if record.offset >= offset:
            yield record


def _iterate(header: BatchHeader, opened: OpenedRecords, index: int) -> Iterator[Record]:
    count, is_log_append_time = header.records_count, bool(header.attributes & LOG_APPEND_TIME_BIT)
    if count < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"A batch gives a count of {count} records, which is not possible."
        )
    # bytes are indexed faster than a memoryview, and a Record holds slices of bytes.
    content, position = bytes(opened.content), opened.position
    while index < count:
        start = position
        try:
            length, position = read_varint(content, position)
        except KafkaError:
            length, position = -1, len(content)
        end = position + length
        if length < MIN_RECORD_BYTES - 1 or end > len(content):
            opened.position = start
            if not opened.more():
                raise KafkaError(ErrorCode.INVALID_RECORD, describe_problem(LENGTH, index))
            content, position = bytes(opened.content), 0
            continue
        timestamp_delta, position = read_varlong(content, position + 1)
        offset_delta, position = read_varint(content, position)
        key, position = _read_nullable(content, position, end)
        value, position = _read_nullable(content, position, end)
        headers, position = _read_headers(content, position, end)
        if position != end:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"A record of {length} bytes does not end where its fields end."
            )
        timestamp = header.base_timestamp + timestamp_delta
        # Sums wrap around as in every Java client, so they always fit in 64 bits.
        if timestamp.bit_length() > 63:
            timestamp = (timestamp + 2**63) % 2**64 - 2**63
        if not 0 <= offset_delta <= header.last_offset_delta:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"A record has offset delta {offset_delta}, but at most "
                f"{header.last_offset_delta} is allowed in its batch.",
            )
        index += 1
        yield Record(
            header.base_offset + offset_delta,
            header.max_timestamp if is_log_append_time else timestamp,
            key,
            value,
            headers,
        )
    opened.position = position
    if not opened.is_at_end():
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{opened.left_bytes()} bytes follow the {count} records of a batch.",
        )


def _read_nullable(content: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(content, position)
    if length < 0:
        return None, position
    if length > end - position:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"A field of {length} bytes extends beyond its record.")
    return content[position : position + length], position + length


def _read_headers(content: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(content, position)
    if count == 0:
        return (), position
    if not 0 < count <= (end - position) // 2:  # A header takes at least two bytes.
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"A record gives a count of {count} headers, which is not possible."
        )
    if count > MAX_HEADERS:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"A record has {count} headers, but at most {MAX_HEADERS} can be read.",
        )
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_nullable(content, position, end)
        if name is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "The key of a record header is null.")
        content_of_header, position = _read_nullable(content, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content_of_header))
    return tuple(headers), position


def records_of(batches: Sequence[ByteSource]) -> list[Record]:
    """Return all data records of `batches`; control batches are skipped."""
    return [
        record for batch in batches if not read_header(batch).is_control for record in iterate_records(batch)
    ]
