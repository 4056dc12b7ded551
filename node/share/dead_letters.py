"""The dead letters of one share-partition that are on their way (KIP-1191), and their note in its state.

A note says for which records they are, to which partition they go, and by which producer id and epoch. A new
leader of the share-partition sends them again by it: the log of the dead letters has all of them from that
producer in that epoch already, or none.
"""

import struct
from dataclasses import dataclass
from typing import Final

from ottla.node.share.share_words import ArchivedRecords, ArchiveReason

# As many ranges of records as one batch of dead letters is for: a note has 1,200 bytes then.
MAX_RANGES: Final = 60
_VERSION: Final = 0
_HEAD = struct.Struct(">bqh16siH")
_RECORDS = struct.Struct(">qqhb")
_REASONS: Final = (ArchiveReason.REJECTED, ArchiveReason.DELIVERY_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """A batch of dead letters, and the records that they are for. No other has this producer id and epoch."""

    producer_id: int
    producer_epoch: int
    topic_id: bytes
    partition: int
    records: tuple[ArchivedRecords, ...]


def encode_letters(letters: DeadLetters) -> bytes:
    """Return the note on these dead letters."""
    assert 0 < len(letters.records) <= MAX_RANGES, len(letters.records)
    head = _HEAD.pack(
        _VERSION,
        letters.producer_id,
        letters.producer_epoch,
        letters.topic_id,
        letters.partition,
        len(letters.records),
    )
    return head + b"".join(_RECORDS.pack(*one[:3], _REASONS.index(one.reason)) for one in letters.records)


def read_letters(note: bytes) -> DeadLetters | None:
    """Return the dead letters of a note, None for an empty one; ValueError for one that makes no sense."""
    if not note:
        return None
    if len(note) < _HEAD.size or note[0] != _VERSION:
        raise ValueError(f"a note on dead letters of {len(note)} bytes")
    _, producer_id, producer_epoch, topic_id, partition, count = _HEAD.unpack_from(note)
    is_whole = 0 < count <= MAX_RANGES and len(note) == _HEAD.size + count * _RECORDS.size
    if not is_whole or min(producer_id, producer_epoch, partition) < 0:
        raise ValueError(f"a note on dead letters of {count} ranges in {len(note)} bytes")
    records: list[ArchivedRecords] = []
    before = -1
    for first, last, delivery_count, reason in _RECORDS.iter_unpack(note[_HEAD.size :]):
        if not before < first <= last or delivery_count < 0 or not 0 <= reason < len(_REASONS):
            raise ValueError(f"dead letters of the records from {first} to {last}, behind {before}")
        records.append(ArchivedRecords(first, last, delivery_count, _REASONS[reason]))
        before = last
    return DeadLetters(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topic_id=topic_id,
        partition=partition,
        records=tuple(records),
    )
