"""Encodes and decodes metadata records, each in Kafka's frame, and the batch of one command's records.

A record's value is `frame version 1 | api key | record version`, each an unsigned varint, and the record
(KIP-746). The batch is logstore's record batch v2 with a CRC and without keys; its leader epoch is the
quorum's. One command is one batch, so it is read whole or not at all. Control batches are KRaft's own and
hold no metadata records. Malformed bytes are CORRUPT_MESSAGE; a record of an unknown type or version is
UNSUPPORTED_VERSION, because skipping it would lose a change of the metadata.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.logstore.record import build_batch, iterate_records
from ottla.logstore.record_batch import BatchHeader, check_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.schema_compiler import decoder, encoder
from ottla.logstore.words.schema_encode import uvarint
from ottla.logstore.words.varint import ByteSource
from ottla.metadata_raft.metadata_version import (
    CORDONED_LOG_DIRS_SINCE,
    ELIGIBLE_LEADER_REPLICAS_SINCE,
    LATEST_METADATA_VERSION,
    LOWEST_METADATA_VERSION,
)
from ottla.metadata_raft.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RaftVotersRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    RequestRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

FRAME_VERSION: Final = 1
# A batch of this size holds some 200,000 partitions, twice the number that a cluster is built for (D4).
MAX_BATCH_BYTES: Final = 32 * 1024 * 1024
_MAX_VARINT_BYTES = 5

# The versions in which each record is written: (level of metadata.version, version from that level on). Older
# versions are read too. The levels are Kafka's; versions of Kafka before the lowest level are not written.
_WRITTEN: dict[type[MetadataRecord], tuple[tuple[int, int], ...]] = {
    RegisterBrokerRecord: ((LOWEST_METADATA_VERSION, 3), (CORDONED_LOG_DIRS_SINCE, 4)),
    UnregisterBrokerRecord: ((LOWEST_METADATA_VERSION, 0),),
    TopicRecord: ((LOWEST_METADATA_VERSION, 0),),
    PartitionRecord: ((LOWEST_METADATA_VERSION, 1), (ELIGIBLE_LEADER_REPLICAS_SINCE, 2)),
    ConfigRecord: ((LOWEST_METADATA_VERSION, 0),),
    PartitionChangeRecord: ((LOWEST_METADATA_VERSION, 1), (ELIGIBLE_LEADER_REPLICAS_SINCE, 2)),
    RemoveTopicRecord: ((LOWEST_METADATA_VERSION, 0),),
    FeatureLevelRecord: ((LOWEST_METADATA_VERSION, 0),),
    ProducerIdsRecord: ((LOWEST_METADATA_VERSION, 0),),
    BrokerRegistrationChangeRecord: ((LOWEST_METADATA_VERSION, 2), (CORDONED_LOG_DIRS_SINCE, 3)),
    UserScramCredentialRecord: ((LOWEST_METADATA_VERSION, 0),),
    ClientQuotaRecord: ((LOWEST_METADATA_VERSION, 0),),
    AccessControlEntryRecord: ((LOWEST_METADATA_VERSION, 0),),
    RemoveAccessControlEntryRecord: ((LOWEST_METADATA_VERSION, 0),),
    NoOpRecord: ((LOWEST_METADATA_VERSION, 0),),
    RemoveUserScramCredentialRecord: ((LOWEST_METADATA_VERSION, 0),),
    RequestRecord: ((LOWEST_METADATA_VERSION, 0),),
    RaftVotersRecord: ((LOWEST_METADATA_VERSION, 0),),
}
_CLASS_OF: dict[int, type[MetadataRecord]] = {schema_of(cls).api_key or 0: cls for cls in _WRITTEN}


def written_version(cls: type[MetadataRecord], metadata_version: int) -> int:
    """Return the version in which a record is written at a level of metadata.version."""
    return [version for since, version in _WRITTEN[cls] if metadata_version >= since][-1]


def _frame(cls: type[MetadataRecord], version: int) -> bytes:
    numbers = (FRAME_VERSION, schema_of(cls).api_key or 0, version)
    return b"".join(uvarint(number) for number in numbers)


_FRAMES: dict[int, dict[type[MetadataRecord], tuple[bytes, int]]] = {
    level: {cls: (_frame(cls, written_version(cls, level)), written_version(cls, level)) for cls in _WRITTEN}
    for level in range(LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION + 1)
}


_PREFIXES: dict[type[MetadataRecord], bytes] = {
    cls: uvarint(FRAME_VERSION) + uvarint(schema_of(cls).api_key or 0) for cls in _WRITTEN
}


class MetadataBatch(NamedTuple):
    """The records of one command, as a batch of the log."""

    base_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[MetadataRecord]
    metadata_version: int = LATEST_METADATA_VERSION  # the level at which it is, or will be, written

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.records) - 1


def encode_record(record: MetadataRecord, metadata_version: int = LATEST_METADATA_VERSION) -> bytes:
    """Return the bytes of a record with its frame."""
    cls = type(record)
    frame, version = _FRAMES[metadata_version][cls]
    writer = bytearray(frame)
    encoder(cls, version)(record, writer)
    return bytes(writer)


def decode_record(value: ByteSource | None) -> MetadataRecord:
    """Return the record that `encode_record` wrote."""
    if value is None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A metadata record has no value.")
    frame_version, position = _read_unsigned_varint(value, 0)
    if frame_version != FRAME_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"A metadata record has the frame version {frame_version}, which is unknown.",
        )
    api_key, position = _read_unsigned_varint(value, position)
    version, position = _read_unsigned_varint(value, position)
    cls: type[MetadataRecord] | None = _CLASS_OF.get(api_key)
    if cls is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"A metadata record has the type {api_key}, which is unknown."
        )
    try:
        record, end = decoder(cls, version)(value, position)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise
        problem = f"A {cls.__name__} is malformed: {error.detail}"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, problem) from None
    if end != len(value):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A {cls.__name__} has {len(value) - end} bytes after its end."
        )
    return record


def is_record_of(cls: type[MetadataRecord], value: bytes | None) -> bool:
    """Return True if a value is a record of this type, by its first bytes only."""
    return value is not None and value.startswith(_PREFIXES[cls])


def encode_batch(batch: MetadataBatch) -> bytearray:
    """Return one command's records as a record batch; POLICY_VIOLATION if it exceeds MAX_BATCH_BYTES."""
    encoded = build_batch(
        [
            (None, encode_record(record, batch.metadata_version), batch.timestamp_ms, ())
            for record in batch.records
        ],
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.epoch,
    )
    if len(encoded) > MAX_BATCH_BYTES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The change takes {len(encoded)} bytes of metadata, but at most "
            f"{MAX_BATCH_BYTES} are allowed at once.",
        )
    return encoded


def decode_batch(buffer: ByteSource, position: int = 0) -> tuple[MetadataBatch, BatchHeader]:
    """Return the batch at `position`, with length and CRC checked; a control batch has no records."""
    header = check_batch(buffer, position)
    if header.size_bytes > MAX_BATCH_BYTES:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            "The header of a metadata batch gives a "
            f"size of {header.size_bytes} bytes, "
            "which is not possible.",
        )
    records: list[MetadataRecord] = []
    if not header.is_control:
        whole = memoryview(buffer)[position : position + header.size_bytes]
        records = [decode_record(record.value) for record in iterate_records(whole)]
        if header.last_offset_delta != len(records) - 1:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"The offsets of the metadata batch at offset {header.base_offset} have gaps.",
            )
    return (
        MetadataBatch(header.base_offset, header.partition_leader_epoch, header.max_timestamp, records),
        header,
    )


def _read_unsigned_varint(buffer: ByteSource, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if position >= len(buffer):
            break
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "The frame of a metadata record is cut off.")
