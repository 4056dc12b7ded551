"""The batch of dead letters in flight of one share-partition (KIP-1191), and its note in the state.

The note has the records, the destination partition, and the producer id and epoch of the batch. With it a new
leader of the share-partition sends the batch again: the destination's log has the whole batch of that
producer and epoch already, or none of it.
"""

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.node.share.share_words import ArchivedRecords, ArchiveReason

# The ranges of records in one batch of dead letters: a note has 1,200 bytes then.
MAX_RANGES: Final = 60
_VERSION: Final = 0
_NUMBER = struct.Struct(">q")  # first, so that the coordinator finds the newer of two notes
_HEAD = struct.Struct(">bqh16siH")
_RECORDS = struct.Struct(">qqhb")
_REASONS: Final = (ArchiveReason.REJECTED, ArchiveReason.DELIVERY_LIMIT)


class Note(NamedTuple):
    """A note in the state: its number, and the dead letters in flight, None if there are none."""

    number: int
    letters: "DeadLetters | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """A batch of dead letters and its records. No other batch has this producer id and epoch."""

    producer_id: int
    producer_epoch: int
    topic_id: bytes
    partition: int
    records: tuple[ArchivedRecords, ...]


def encode_note(note: Note) -> bytes:
    """Return the bytes of a note."""
    number, letters = note
    if letters is None:
        return _NUMBER.pack(number)
    assert 0 < len(letters.records) <= MAX_RANGES, len(letters.records)
    head = _HEAD.pack(
        _VERSION,
        letters.producer_id,
        letters.producer_epoch,
        letters.topic_id,
        letters.partition,
        len(letters.records),
    )
    return (
        _NUMBER.pack(number)
        + head
        + b"".join(_RECORDS.pack(*one[:3], _REASONS.index(one.reason)) for one in letters.records)
    )


def read_note(content: bytes) -> Note:
    """Return the note of these bytes, of number 0 if there are none; ValueError if they are not valid."""
    if not content:
        return Note(0, None)
    if len(content) < _NUMBER.size:
        raise ValueError(f"the note on dead letters has only {len(content)} bytes")
    (number,) = _NUMBER.unpack_from(content)
    note = content[_NUMBER.size :]
    if number < 0 or (note and (len(note) < _HEAD.size or note[0] != _VERSION)):
        raise ValueError(f"the note on dead letters of {len(content)} bytes, number {number}, is not valid")
    return Note(number, _read_letters(note) if note else None)


def _read_letters(note: bytes) -> DeadLetters:
    _, producer_id, producer_epoch, topic_id, partition, count = _HEAD.unpack_from(note)
    is_whole = 0 < count <= MAX_RANGES and len(note) == _HEAD.size + count * _RECORDS.size
    if not is_whole or min(producer_id, producer_epoch, partition) < 0:
        raise ValueError(f"the note on dead letters has {count} ranges in {len(note)} bytes")
    records: list[ArchivedRecords] = []
    before = -1
    for first, last, delivery_count, reason in _RECORDS.iter_unpack(note[_HEAD.size :]):
        if not before < first <= last or delivery_count < 0 or not 0 <= reason < len(_REASONS):
            raise ValueError(f"the dead letters of records {first} to {last} follow record {before}")
        records.append(ArchivedRecords(first, last, delivery_count, _REASONS[reason]))
        before = last
    return DeadLetters(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topic_id=topic_id,
        partition=partition,
        records=tuple(records),
    )
