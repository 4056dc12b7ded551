"""Keys and values of `__consumer_offsets`: the coordinator's durable state in Apache Kafka's own schemas.

A record's key begins with an int16 that says which kind it is (0 and 1 an offset, 2 a classic group, 3 to 8
and 16 a consumer group, 10 to 15 a share group; from 17 on a streams group), its value with the int16 version
of its schema; a null value is a tombstone.
"""

from collections.abc import Sequence
from typing import TypeAlias

from ottla.groupcoord.consumer.consumer_records import (
    RECORDS,
    ConsumerGroupRecord,
    consumer_record_size_bytes,
    decode_consumer_record,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla.groupcoord.group_records import (
    GROUP_METADATA_KEY,
    OFFSET_KEY,
    OFFSETS_TOPIC,
    OLDEST_OFFSET_KEY,
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRecord,
)
from ottla.groupcoord.offsets.offset_values import CommittedOffsets, pack_offset_key, pack_offset_value
from ottla.groupcoord.share.share_records import (
    SHARE_RECORDS,
    ShareGroupRecord,
    decode_share_record,
    encode_share_key,
    encode_share_value,
    share_record_size_bytes,
)
from ottla.logstore.words import schema, schema_compiler
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer

GroupRecord: TypeAlias = OffsetRecord | GroupMetadataRecord | ConsumerGroupRecord | ShareGroupRecord
# A unit of an append: one record, or all records of a commit.
AppendedRecord: TypeAlias = GroupRecord | CommittedOffsets

# The most bytes of an offset's record beside names and value; some 25 are usual.
_OFFSET_OVERHEAD_BYTES = 40
_GROUP_METADATA_VALUE_VERSION = 3  # the version that Kafka 4.3 writes


def encode_key(record: GroupRecord) -> bytes:
    match record:
        case OffsetRecord(group_id, topic, partition, _):
            return pack_offset_key(group_id, topic, partition)
        case GroupMetadataRecord(group_id, _):
            return b"\x00\x02" + schema_compiler.encode(GroupMetadataKey(group=group_id), 0)
        case _:
            if isinstance(record, ShareGroupRecord):
                return encode_share_key(record)
            return encode_consumer_key(record)


def encode_value(record: GroupRecord) -> bytes | None:
    match record:
        case OffsetRecord(value=value):
            return None if value is None else pack_offset_value(value)
        case GroupMetadataRecord(value=value):
            version = _GROUP_METADATA_VALUE_VERSION
            return None if value is None else version.to_bytes(2) + schema_compiler.encode(value, version)
        case _:
            if isinstance(record, ShareGroupRecord):
                return encode_share_value(record)
            return encode_consumer_value(record)


def decode_record(key: Buffer, value: Buffer | None) -> GroupRecord | None:
    """Return a record of the log, or None for one of a kind that this version does not know.

    KafkaError(CORRUPT_MESSAGE) for bytes that are no key, or no value of their key's kind.
    """
    kind = int.from_bytes(key[:2]) if len(key) >= 2 else -1
    try:
        if kind in (OFFSET_KEY, OLDEST_OFFSET_KEY):
            offset_key, _ = schema_compiler.decoder(OffsetCommitKey, 0)(key, 2)
            committed = None if value is None else _decode_value(OffsetCommitValue, value)
            return OffsetRecord(offset_key.group, offset_key.topic, offset_key.partition, committed)
        if kind == GROUP_METADATA_KEY:
            group_key, _ = schema_compiler.decoder(GroupMetadataKey, 0)(key, 2)
            metadata = None if value is None else _decode_value(GroupMetadataValue, value)
            return GroupMetadataRecord(group_key.group, metadata)
        if kind in RECORDS:
            return decode_consumer_record(kind, key, value)
        if kind in SHARE_RECORDS:
            return decode_share_record(kind, key, value)
    except KafkaError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"a record of {OFFSETS_TOPIC} cannot be read: {error.detail}"
        ) from error
    if kind < 0 or kind >= 0x8000:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a key of {OFFSETS_TOPIC} is {len(key)} bytes long")
    return None


def opened(record: AppendedRecord) -> Sequence[GroupRecord]:
    """Return each record by itself."""
    return record.opened() if isinstance(record, CommittedOffsets) else (record,)


def record_size_bytes(record: AppendedRecord) -> int:
    """Return an upper bound of a record's bytes in a batch; cheap, since each append asks for it."""
    overhead = 64  # record header, key and value prefixes, and the numbers
    match record:
        case CommittedOffsets(group_id, topic, _, values):
            # As exact as is cheap: it decides how many partitions one commit may have.
            names = _OFFSET_OVERHEAD_BYTES + len(group_id.encode()) + len(topic.encode())
            return names * len(values) + sum(map(len, values))
        case OffsetRecord(group_id, topic, _, value):
            metadata = value.metadata if value is not None else ""
            return overhead + 3 * (len(group_id) + len(topic) + len(metadata))
        case GroupMetadataRecord(group_id, value):
            size = overhead + 3 * len(group_id)
            if value is not None:
                size += 3 * (len(value.protocol_type) + len(value.protocol or "") + len(value.leader or ""))
                for member in value.members:
                    names = (
                        len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id)
                    )
                    size += overhead + 3 * (names + len(member.client_host))
                    size += len(member.subscription) + len(member.assignment)
            return size
        case _:
            if isinstance(record, ShareGroupRecord):
                return share_record_size_bytes(record)
            return consumer_record_size_bytes(record)


def _decode_value(cls: type[schema.T], value: Buffer) -> schema.T:
    if len(value) < 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a value is {len(value)} bytes long")
    version = int.from_bytes(value[:2])
    declared = schema.schema_of(cls)
    if not declared.min_version <= version <= declared.max_version:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a {cls.__name__} has the unknown version {version}")
    decoded, _ = schema_compiler.decoder(cls, version)(value, 2)
    return decoded
