"""The record batch, format v2: 61 bytes of header, then the records, compressed or not.

The data plane reads and patches headers and never looks behind them. The fields, big-endian, by position:

    0 base_offset i64 | 8 batch_length i32 (the bytes after this field) | 12 partition_leader_epoch i32
    16 magic i8 (2) | 17 crc u32 | 21 attributes i16 | 23 last_offset_delta i32 | 27 base_timestamp i64
    35 max_timestamp i64 | 43 producer_id i64 | 51 producer_epoch i16 | 53 base_sequence i32
    57 records_count i32 | 61 records

The CRC-32C covers everything from the attributes on: patching base offset and leader epoch leaves it valid.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.logstore.compression import Compression
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # the size of base_offset and batch_length, which batch_length does not count
CRC_START: Final = 21
MAGIC: Final = 2

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")
_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_PLACE = struct.Struct(">qii")  # base offset, batch length, leader epoch
_MAX_TIMESTAMP_POSITION = 35
_ATTRIBUTES = struct.Struct(">h")


class TimestampType(IntEnum):
    """The origin of a batch's timestamps: its producer, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records of one batch."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the batch, header and records."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 for a batch without one; 2^31-1 is followed by 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The compression of the records; CORRUPT_MESSAGE for the ids 5 to 7, which are not assigned."""
        return compression_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME_BIT))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True if the batch holds a control record, such as the end of a transaction, instead of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may drop the batch's tombstones; it replaces the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def increment_sequence(sequence: int, by: int) -> int:
    """Return `sequence` + `by`, where 2^31-1 is followed by 0."""
    return (sequence + by) & MAX_SEQUENCE


def compression_of(attributes: int) -> Compression:
    """Return the compression in a batch's attributes; CORRUPT_MESSAGE for an id that is not assigned."""
    try:
        return Compression(attributes & COMPRESSION_MASK)
    except ValueError:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Compression id {attributes & COMPRESSION_MASK} is unknown."
        ) from None


def read_header(buffer: ByteSource, position: int = 0) -> BatchHeader:
    """Return the header at `position`, unchecked; CORRUPT_MESSAGE if fewer than 61 bytes are left."""
    if len(buffer) - position < HEADER_SIZE or position < 0:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A batch header needs {HEADER_SIZE} bytes, but only {len(buffer) - position} are left.",
        )
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def computed_crc(buffer: ByteSource, position: int, size_bytes: int) -> int:
    """Return the CRC-32C that the batch of `size_bytes` at `position` should have."""
    return crc32c(memoryview(buffer)[position + CRC_START : position + size_bytes])


def check_batch(buffer: ByteSource, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position` after checking it.

    The checks are of length, magic, CRC, and count against last offset delta; CORRUPT_MESSAGE if one fails.
    Followers and recovery check this much of a batch; `batch_validator` has the further checks of a leader.
    """
    header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Batch format {header.magic} is not supported: only {MAGIC} is."
        )
    if not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= len(buffer) - position - LOG_OVERHEAD:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The header of a batch gives a size of {header.size_bytes} bytes, but "
            f"{len(buffer) - position} are left.",
        )
    if computed_crc(buffer, position, header.size_bytes) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"The CRC of the batch at offset {header.base_offset} does not match."
        )
    # Compaction removes records and keeps the delta, so a batch in a log may have fewer records than offsets.
    if header.last_offset_delta < 0 or not 0 <= header.records_count <= header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The batch at offset {header.base_offset} counts {header.records_count} "
            f"records, but has {header.last_offset_delta + 1} offsets.",
        )
    return header


def iterate_headers(buffer: ByteSource) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch in `buffer`, up to a torn tail.

    CORRUPT_MESSAGE if a batch length is too small for a header.
    """
    position, size = 0, len(buffer)
    while size - position >= HEADER_SIZE:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                "The header of a batch gives a length of "
                f"{header.batch_length} bytes, which is "
                "not possible.",
            )
        if position + header.size_bytes > size:
            return
        yield position, header
        position += header.size_bytes


def patch_offset_and_epoch(
    batch: bytearray | memoryview, base_offset: int, batch_length: int, leader_epoch: int
) -> None:
    """Set the base offset and the leader epoch of a batch; the CRC covers neither field.

    The length is between the two fields and written with its old value, so that one call writes all three.
    """
    _PLACE.pack_into(batch, 0, base_offset, batch_length, leader_epoch)


def patch_timestamp(
    batch: bytearray | memoryview, timestamp_type: TimestampType, max_timestamp: int, position: int = 0
) -> int:
    """Set the batch's timestamp type and max timestamp; update the CRC and return it."""
    size_bytes = _INT32.unpack_from(batch, position + 8)[0] + LOG_OVERHEAD
    (attributes,) = _ATTRIBUTES.unpack_from(batch, position + CRC_START)
    attributes &= ~LOG_APPEND_TIME_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(batch, position + CRC_START, attributes)
    _OFFSET.pack_into(batch, position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    crc = computed_crc(batch, position, size_bytes)
    _CRC.pack_into(batch, position + 17, crc)
    return crc
