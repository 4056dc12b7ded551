"""The bytes of a committed offset: packs its key and value, reads a value, and judges one before it is kept.

A shard keeps a million values in the bytes of the log and decodes one when it is read. Nearly all are version
4 with short metadata, which one `Struct` reads and writes; the schema reads and writes the others, more
slowly and with the same result.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.groupcoord.group_records import NO_TIMESTAMP_MS, OFFSET_KEY, OffsetCommitValue, OffsetRecord
from ottla.logstore.words import schema, schema_compiler
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import ZERO_UUID

_VERSION: Final = 4  # the version that Kafka 4.3 writes
_VERSION_WITH_EXPIRY: Final = 1  # the one version with room for an offset's own retention
_HEAD = struct.Struct(">hqiB")  # version, offset, leader epoch, length of the metadata plus one
_TIMESTAMP = struct.Struct(">q")
_NO_METADATA: Final = b"\x01"
_NO_TAGS: Final = b"\x00"
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"  # one tag, number 0, 16 bytes
_MAX_SHORT_METADATA: Final = 126  # its length plus one is a varint of one byte
_MAX_STRING_BYTES: Final = 2**15 - 1
_LENGTHS = struct.Struct(">hh")
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_SCHEMA = schema.schema_of(OffsetCommitValue)


class CommittedOffsets(NamedTuple):
    """Offsets of one topic that one commit wrote: a record for each, its value in the bytes of the log."""

    group_id: str
    topic: str
    partitions: Sequence[int]
    values: Sequence[bytes]

    def opened(self) -> list[OffsetRecord]:
        """Return each offset by itself, as a record."""
        return [
            OffsetRecord(self.group_id, self.topic, partition, read_offset_value(value))
            for partition, value in zip(self.partitions, self.values, strict=True)
        ]


def pack_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return a key in the bytes of the log, with its kind; ValueError for names that no request can bring."""
    return pack_key_head(group_id, topic) + _PARTITION.pack(partition)


def pack_key_head(group_id: str, topic: str) -> bytes:
    """Return the bytes before the partition in the keys of a group's offsets of one topic."""
    group, name = group_id.encode(), topic.encode()
    if len(group) > _MAX_STRING_BYTES or len(name) > _MAX_STRING_BYTES:
        raise ValueError(f"a group id of {len(group)} or a topic name of {len(name)} bytes is too long")
    return b"".join((_LENGTHS.pack(OFFSET_KEY, len(group)), group, _LENGTH.pack(len(name)), name))


def pack_key_tails(partitions: Sequence[int]) -> list[bytes]:
    """Return the ends of keys, which are the partitions."""
    return list(map(_PARTITION.pack, partitions))


def pack_offset_value(value: OffsetCommitValue) -> bytes:
    """Return a value in the bytes of the log, with its version."""
    if value.expire_timestamp != NO_TIMESTAMP_MS:
        return _VERSION_WITH_EXPIRY.to_bytes(2) + schema_compiler.encode(value, _VERSION_WITH_EXPIRY)
    metadata = value.metadata.encode()
    if len(metadata) > _MAX_SHORT_METADATA:
        return _VERSION.to_bytes(2) + schema_compiler.encode(value, _VERSION)
    head = _HEAD.pack(_VERSION, value.offset, value.leader_epoch, len(metadata) + 1)
    return head + metadata + _behind_metadata(value.commit_timestamp, value.topic_id)


def pack_positions(positions: Sequence[bytes], commit_timestamp: int, topic_id: bytes) -> list[bytes]:
    """Return values without metadata for these positions.

    A position is the offset and the leader epoch, as the value has them.
    """
    head = _VERSION.to_bytes(2)
    tail = _NO_METADATA + _behind_metadata(commit_timestamp, topic_id)
    return [head + position + tail for position in positions]


def _behind_metadata(commit_timestamp: int, topic_id: bytes) -> bytes:
    tags = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id
    return _TIMESTAMP.pack(commit_timestamp) + tags


def read_offset_value(content: bytes) -> OffsetCommitValue:
    """Return the value in these bytes; KafkaError(CORRUPT_MESSAGE) if they are not one."""
    end = _end_of_short_metadata(content)
    if end < 0:
        return _read_by_schema(content)
    _, offset, leader_epoch, _ = _HEAD.unpack_from(content)
    (timestamp_ms,) = _TIMESTAMP.unpack_from(content, end)
    try:
        metadata = content[_HEAD.size : end].decode()
    except UnicodeDecodeError:
        return _read_by_schema(content)  # which says why they cannot be read
    return OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=timestamp_ms,
        topic_id=content[end + 11 :] or ZERO_UUID,
    )


def topic_id_in(content: bytes) -> bytes:
    """Return the id of the topic that a readable value was committed for; ZERO_UUID if it has none."""
    end = _end_of_short_metadata(content)
    return read_offset_value(content).topic_id if end < 0 else content[end + 11 :] or ZERO_UUID


def is_offset_value(content: bytes) -> bool:
    """Return True if `read_offset_value` can read the bytes; cheaper than reading them."""
    end = _end_of_short_metadata(content)
    if end >= 0 and content[_HEAD.size : end].isascii():
        return True
    try:
        _read_by_schema(content)
    except KafkaError:
        return False
    return True


def _end_of_short_metadata(content: bytes) -> int:
    """Return the end of the metadata in a value of the usual shape, -1 for any other."""
    if len(content) < _HEAD.size or content[0] != 0 or content[1] != _VERSION:
        return -1
    end = _HEAD.size + content[14] - 1
    # A length byte of 0 would be null; one from 128 on would be the first of two.
    if not _HEAD.size <= end <= _HEAD.size + _MAX_SHORT_METADATA:
        return -1
    left = len(content) - end - _TIMESTAMP.size
    if left == 1:
        return end if content[-1] == 0 else -1
    return end if left == 19 and content[end + 8 : end + 11] == _TOPIC_ID_TAG else -1


def _read_by_schema(content: bytes) -> OffsetCommitValue:
    version = int.from_bytes(content[:2]) if len(content) >= 2 else -1
    if not _SCHEMA.min_version <= version <= _SCHEMA.max_version:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"an offset of {len(content)} bytes has the unknown version {version}"
        )
    try:
        value, _ = schema_compiler.decoder(OffsetCommitValue, version)(content, 2)
    except KafkaError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"an offset of version {version} cannot be read: {error.detail}"
        ) from error
    return value
