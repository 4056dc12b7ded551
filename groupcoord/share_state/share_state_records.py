"""Keys and values of `__share_group_state`, byte for byte as Kafka's ShareCoordinatorRecordSerde writes them.

    key         int16 0 for a snapshot, 1 for an update | int16 length, group | topic id | int32 partition
    snapshot 0  int16 0 | int32 snapshot epoch | int32 state epoch | int32 leader epoch | int64 start offset
                | int64 create time | int64 write time | batches | tags
    update 0    int16 0 | int32 snapshot epoch | int32 leader epoch | int64 start offset | batches | tags
    batches     n + 1 as varint | n of {int64 first, int64 last offset | int8 state | int16 count | no tags}
    tags        0 the count of records whose delivery is complete (KIP-1226), left out if it is -1
                | 10000 the dead letters that the leader is about to produce: in a snapshot if there are any,
                in an update that changes them. Kafka's readers skip it.

A snapshot without a value is a tombstone. Encoded by hand, without `logstore/words/schema`: each
acknowledgement writes a record, and a load reads all records since the last pruning.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ottla.groupcoord.share_state.combine_batches import Batches
from ottla.groupcoord.share_state.share_state import ShareState, Update, in_order
from ottla.groupcoord.share_state.share_state_words import NOT_GIVEN, SharePartitionKey, StateBatch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer

SHARE_STATE_TOPIC: Final = "__share_group_state"
SNAPSHOT_KEY: Final = 0
UPDATE_KEY: Final = 1

_INT16 = struct.Struct(">h")
_KEY_END = struct.Struct(">16si")
_SNAPSHOT = struct.Struct(">hiiiqqq")
_UPDATE = struct.Struct(">hiiq")
_BATCH = struct.Struct(">qqbhx")
_COMPLETE_COUNT = struct.Struct(">bbi")  # the number of the tag, its length, the count
_COMPLETE_COUNT_TAG: Final = 0
_DEAD_LETTERS_TAG: Final = 10_000
_INT32_BYTES: Final = 4
_MAX_VARINT_BYTES: Final = 5
# The most bytes of a record beside its group and its batches.
_RECORD_OVERHEAD_BYTES: Final = 160


class SnapshotRecord(NamedTuple):
    """The whole state of a share-partition; with None, its tombstone."""

    key: SharePartitionKey
    state: ShareState | None


class UpdateRecord(NamedTuple):
    """A change of the state of a share-partition."""

    key: SharePartitionKey
    update: Update


ShareStateRecord: TypeAlias = SnapshotRecord | UpdateRecord


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The key of a record: its kind and its share-partition."""

    kind: int
    key: SharePartitionKey


# ---- writing -----------------------------------------------------------------------------------------------


def encode_record(record: ShareStateRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record."""
    match record:
        case SnapshotRecord(key, None):
            return encode_key(SNAPSHOT_KEY, key), None
        case SnapshotRecord(key, state):
            assert state is not None
            return encode_key(SNAPSHOT_KEY, key), _encode_snapshot(state)
        case UpdateRecord(key, update):
            return encode_key(UPDATE_KEY, key), _encode_update(update)


def encode_key(kind: int, key: SharePartitionKey) -> bytes:
    group = key.group.encode()
    return b"".join(
        (_INT16.pack(kind), _INT16.pack(len(group)), group, _KEY_END.pack(key.topic_id, key.partition))
    )


def record_size_bytes(key: SharePartitionKey, batches: int, dead_letters_bytes: int = 0) -> int:
    """Return an upper bound of a record's bytes in a batch of the log."""
    return _RECORD_OVERHEAD_BYTES + 3 * len(key.group) + _BATCH.size * batches + dead_letters_bytes


def _encode_snapshot(state: ShareState) -> bytes:
    head = _SNAPSHOT.pack(
        0,
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.create_time_ms,
        state.write_time_ms,
    )
    return head + _batches(state.batches) + _tags(state.delivery_complete_count, state.dead_letters or None)


def _encode_update(update: Update) -> bytes:
    head = _UPDATE.pack(0, update.snapshot_epoch, update.leader_epoch, update.start_offset)
    return head + _batches(update.batches) + _tags(update.delivery_complete_count, update.dead_letters)


def _batches(batches: Sequence[StateBatch]) -> bytes:
    return _varint(len(batches) + 1) + b"".join(_BATCH.pack(*batch) for batch in batches)


def _tags(delivery_complete_count: int, dead_letters: bytes | None) -> bytes:
    tags = b""
    if delivery_complete_count != NOT_GIVEN:
        tags = _COMPLETE_COUNT.pack(_COMPLETE_COUNT_TAG, _INT32_BYTES, delivery_complete_count)
    count = int(bool(tags))
    if dead_letters is not None:
        count += 1
        tags += _varint(_DEAD_LETTERS_TAG) + _varint(len(dead_letters)) + dead_letters
    return _varint(count) + tags


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# ---- reading -----------------------------------------------------------------------------------------------


def decode_record(key: Buffer, value: Buffer | None) -> ShareStateRecord | None:
    """Return a record of the log, or None for one of a kind that this version does not know.

    KafkaError(CORRUPT_MESSAGE) for bytes that are no key, or no value of their key's kind.
    """
    known = decode_key(key)
    if known is None:
        return None
    if value is None:
        if known.kind != SNAPSHOT_KEY:
            raise _corrupt("an update has no value")
        return SnapshotRecord(known.key, None)
    try:
        version = _INT16.unpack_from(value)[0]
        if version != 0:
            raise _corrupt(f"a value has the unknown version {version}")
        if known.kind == SNAPSHOT_KEY:
            return SnapshotRecord(known.key, _decode_snapshot(value))
        return UpdateRecord(known.key, _decode_update(value))
    except (struct.error, IndexError) as error:
        raise _corrupt(f"a value of {len(value)} bytes is not valid: {error}") from error


def decode_key(key: Buffer) -> RecordKey | None:
    """Return the kind and share-partition of a record; None for a kind that this version cannot read."""
    if len(key) < 2:
        raise _corrupt(f"a key is {len(key)} bytes long")
    kind = _INT16.unpack_from(key)[0]
    if kind < 0:
        raise _corrupt(f"a key has the type {kind}")
    if kind not in (SNAPSHOT_KEY, UPDATE_KEY):
        return None
    try:
        (length,) = _INT16.unpack_from(key, 2)
        if length < 0 or len(key) < 4 + length + _KEY_END.size:
            raise _corrupt(f"a key of {len(key)} bytes has a group of {length} bytes")
        group = bytes(key[4 : 4 + length]).decode()
        topic_id, partition = _KEY_END.unpack_from(key, 4 + length)
    except (struct.error, UnicodeDecodeError) as error:
        raise _corrupt(f"a key is not that of a share-partition: {error}") from error
    return RecordKey(kind, SharePartitionKey(group, topic_id, partition))


def _decode_snapshot(value: Buffer) -> ShareState:
    _, snapshot_epoch, state_epoch, leader_epoch, start_offset, create_time_ms, write_time_ms = (
        _SNAPSHOT.unpack_from(value)
    )
    batches, position = _read_batches(value, _SNAPSHOT.size)
    complete_count, dead_letters = _read_tags(value, position)
    return ShareState(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete_count,
        create_time_ms=create_time_ms,
        write_time_ms=write_time_ms,
        batches=in_order(batches, start_offset),
        dead_letters=dead_letters or b"",
    )


def _decode_update(value: Buffer) -> Update:
    _, snapshot_epoch, leader_epoch, start_offset = _UPDATE.unpack_from(value)
    batches, position = _read_batches(value, _UPDATE.size)
    complete_count, dead_letters = _read_tags(value, position)
    return Update(snapshot_epoch, leader_epoch, start_offset, complete_count, in_order(batches), dead_letters)


def _read_batches(value: Buffer, position: int) -> tuple[Batches, int]:
    count, position = _read_varint(value, position)
    count -= 1
    if count < 0 or count * _BATCH.size > len(value) - position:
        raise _corrupt(f"a list of {count} batches has only {len(value) - position} bytes")
    batches = []
    for _ in range(count):
        batch = StateBatch(*_BATCH.unpack_from(value, position))
        if batch.last_offset < batch.first_offset:
            raise _corrupt(f"a batch goes from offset {batch.first_offset} to {batch.last_offset}")
        position += _BATCH.size
        if value[position - 1]:
            raise _corrupt("a batch has tags, but none are known")
        batches.append(batch)
    return tuple(batches), position


def _read_tags(value: Buffer, position: int) -> tuple[int, bytes | None]:
    """Return the count and the dead letters in the tags; other tags are skipped (KIP-482)."""
    found, dead_letters = NOT_GIVEN, None
    tags, position = _read_varint(value, position)
    if tags * 2 > len(value) - position:
        raise _corrupt(f"a list of {tags} tags has only {len(value) - position} bytes")
    for _ in range(tags):
        tag, position = _read_varint(value, position)
        size, position = _read_varint(value, position)
        if position + size > len(value) or (tag == _COMPLETE_COUNT_TAG and size != _INT32_BYTES):
            raise _corrupt(f"tag {tag} cannot have {size} bytes")
        if tag == _COMPLETE_COUNT_TAG:
            found = int.from_bytes(value[position : position + size], signed=True)
        elif tag == _DEAD_LETTERS_TAG:
            dead_letters = bytes(value[position : position + size])
        position += size
    return found, dead_letters


def _read_varint(value: Buffer, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise _corrupt("a length has too many bytes")


def _corrupt(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A record of {SHARE_STATE_TOPIC} cannot be read: {detail}.")
