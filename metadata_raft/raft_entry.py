"""Encodes and checks the entries of the replicated log: Kafka's record batches with a Raft index and term.

An entry is either one encoded MetadataBatch or a control batch of the quorum itself. The header of a batch
has fields that a metadata log does not use. An entry has Raft's values there, under the batch's CRC:
`producer_id` is the index, `base_sequence` the term (repeated in `partition_leader_epoch`, outside the CRC),
and `producer_epoch` the entry's place in the group that was written with one sync. In a log that was written
before the quorum existed, these fields are empty, and the index of a batch is its number.
"""

import logging
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.logstore.record import MIN_RECORD_BYTES, build_batch, iterate_records
from ottla.logstore.record_batch import HEADER_SIZE, BatchHeader, check_batch, computed_crc, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource
from ottla.metadata_raft.control_records import (
    ControlKind,
    control_key,
    leader_change_value,
)
from ottla.metadata_raft.record_codec import (
    MAX_BATCH_BYTES,
    MetadataBatch,
    decode_batch,
    decode_record,
    encode_record,
    is_record_of,
)
from ottla.metadata_raft.records import NoOpRecord, PartitionRecord, RaftVotersRecord
from ottla.metadata_raft.voters import VoterSet, voters_of_record

MAX_GROUP: Final = 2**15 - 1  # entries that one sync may cover; the place is an int16
# Larger batches may be encoded outside the node's loop, if they surely fit: that takes 5 us a record.
MANY_RECORDS: Final = 500
# The maximal size of a new partition's record, and of each replica in it: in four lists of ids, and a
# directory.
PARTITION_BYTES: Final = 200
REPLICA_BYTES: Final = 40
_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")
_CRC_POSITION = 17
_PRODUCER_ID_POSITION = 43
_PRODUCER_EPOCH_POSITION = 51
# Length of a record, attributes, two deltas, no key, length of the value: varints of at most 5 and 10 bytes.
_MAX_BEFORE_VALUE: Final = 5 + 1 + 10 + 5 + 1 + 5
_VOTERS_FRAME: Final = encode_record(RaftVotersRecord(voters=()))[:4]

log = logging.getLogger(__name__)


class EntryHeader(NamedTuple):
    """Raft's values of an entry, read without decoding it."""

    raft_index: int  # -1 in a log that was written before the quorum existed
    term: int
    base_offset: int
    next_offset: int
    size_bytes: int
    group_place: int  # 0 or less for the first entry of a group with one sync
    is_control: bool


def encode_entry(batch: MetadataBatch, index: int) -> bytes:
    """Return the entry with one command's records; POLICY_VIOLATION if it exceeds MAX_BATCH_BYTES."""
    encoded = build_batch(
        [
            (None, encode_record(record, batch.metadata_version), batch.timestamp_ms, ())
            for record in batch.records
        ],
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.epoch,
        producer_id=index,
        base_sequence=batch.epoch,
        producer_epoch=0,
    )
    if len(encoded) > MAX_BATCH_BYTES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The change takes {len(encoded)} bytes of metadata, but at most "
            f"{MAX_BATCH_BYTES} are allowed at once.",
        )
    return bytes(encoded)


def surely_fits(batch: MetadataBatch) -> bool:
    """Return True if a batch of very many partitions certainly makes an entry within MAX_BATCH_BYTES.

    The estimate counts the replicas; False means that the size is unknown.
    """
    records = batch.records
    if len(records) < MANY_RECORDS:
        return False
    size_bytes = 0
    for record in records:
        if type(record) is PartitionRecord:
            size_bytes += PARTITION_BYTES + REPLICA_BYTES * len(record.replicas)
        else:
            size_bytes += len(encode_record(record, batch.metadata_version))
    return size_bytes <= MAX_BATCH_BYTES // 2


def encode_leader_change(
    *, leader_id: int, voters: VoterSet, index: int, term: int, base_offset: int, timestamp_ms: int
) -> bytes:
    """Return the first entry of a term."""
    return bytes(
        build_batch(
            [
                (
                    control_key(ControlKind.LEADER_CHANGE),
                    leader_change_value(leader_id, voters),
                    timestamp_ms,
                    (),
                )
            ],
            base_offset=base_offset,
            partition_leader_epoch=term,
            producer_id=index,
            base_sequence=term,
            producer_epoch=0,
            is_control=True,
        )
    )


def check_entry(content: ByteSource, position: int = 0) -> EntryHeader:
    """Return the header of the entry at `position`; CORRUPT_MESSAGE if its length or CRC is wrong."""
    header = check_batch(content, position)
    if header.size_bytes > MAX_BATCH_BYTES:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            "The header of a metadata batch gives a "
            f"size of {header.size_bytes} bytes, "
            "which is not possible.",
        )
    if header.records_count * MIN_RECORD_BYTES > header.size_bytes or header.records_count < 1:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The header of the metadata batch at offset {header.base_offset} counts "
            f"{header.records_count} records, which is not possible for its size.",
        )
    if header.last_offset_delta != header.records_count - 1:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The offsets of the metadata batch at offset {header.base_offset} have gaps.",
        )
    if header.producer_id >= 0 and header.base_sequence != header.partition_leader_epoch:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The metadata batch at offset {header.base_offset} has two different epochs: "
            f"{header.base_sequence} and {header.partition_leader_epoch}.",
        )
    return _entry_header(header)


def peek_entry(entry: ByteSource) -> EntryHeader:
    """Return the header of an entry that was checked before."""
    return _entry_header(read_header(entry))


def _entry_header(header: BatchHeader) -> EntryHeader:
    return EntryHeader(
        header.producer_id,
        header.partition_leader_epoch,
        header.base_offset,
        header.next_offset,
        header.size_bytes,
        header.producer_epoch,
        header.is_control,
    )


def check_sequence(entries: Sequence[bytes], *, after_index: int, after_term: int) -> list[EntryHeader]:
    """Return the headers of entries from another voter; CORRUPT_MESSAGE if they are not consecutive."""
    headers: list[EntryHeader] = []
    index, term, offset = after_index, after_term, -1
    for entry in entries:
        header = check_entry(entry)
        if (
            header.size_bytes != len(entry)
            or header.raft_index != index + 1
            or header.term < term
            or offset not in (-1, header.base_offset)
        ):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"Entry {header.raft_index} does not follow entry {index}."
            )
        headers.append(header)
        index, term, offset = header.raft_index, header.term, header.next_offset
    return headers


def open_entry(entry: bytes) -> MetadataBatch:
    """Return the batch of an entry; UNSUPPORTED_VERSION if this release does not know its records.

    The first entry of a term is a NoOpRecord outside the quorum. So are unreadable records with a valid CRC:
    every voter has the same ones, and no voter may stop because of them.
    """
    try:
        batch, header = decode_batch(entry)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise
        header = read_header(entry)
        log.error("The metadata batch at offset %d was skipped: %s", header.base_offset, error)
        batch = MetadataBatch(header.base_offset, header.partition_leader_epoch, header.max_timestamp, ())
    else:
        if not header.is_control:
            return batch
    return batch._replace(records=[NoOpRecord()] * header.records_count)


def voters_of(entry: bytes) -> VoterSet | None:
    """Return the voters in the first record of an entry; None if it is a record of another type."""
    # Very few entries have voters, so the others are recognised without decoding, by the frame with which the
    # value of the first record begins.
    if entry.find(_VOTERS_FRAME, HEADER_SIZE, HEADER_SIZE + _MAX_BEFORE_VALUE + len(_VOTERS_FRAME)) < 0:
        return None
    if read_header(entry).is_control:
        return None
    value = next(iterate_records(entry)).value
    if not is_record_of(RaftVotersRecord, value):
        return None
    record = decode_record(value)
    assert isinstance(record, RaftVotersRecord)
    return voters_of_record(record)


def with_index(entry: ByteSource, raft_index: int) -> bytes:
    """Return the entry with another index."""
    placed = bytearray(entry)
    _INT64.pack_into(placed, _PRODUCER_ID_POSITION, raft_index)
    _UINT32.pack_into(placed, _CRC_POSITION, computed_crc(placed, 0, len(placed)))
    return bytes(placed)


def placed_in_group(entry: ByteSource, place: int) -> bytes:
    """Return the entry as it is written, `place` entries after the first one of its sync."""
    placed = bytearray(entry)
    _INT16.pack_into(placed, _PRODUCER_EPOCH_POSITION, place)
    _UINT32.pack_into(placed, _CRC_POSITION, computed_crc(placed, 0, len(placed)))
    return bytes(placed)
