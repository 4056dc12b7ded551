"""Keys and values of `__transaction_state`, byte for byte as Apache Kafka's TransactionLog writes them.

    key       int16 0 | int16 length, transactional id
    value 0   int16 0 | int64 producer id | int16 epoch | int32 timeout | int8 status
              | int32 n (-1 null) of {int16 length, topic | int32 m of int32 partition}
              | int64 last update | int64 start
    value 1   int16 1 | the same with KIP-482's lengths and an empty tag section after each topic | tags:
              0 previous producer id, 1 next producer id, 2 client's version, 3 next producer epoch

A null value is a tombstone. `transaction.version` decides which version is written: 0 for level 0, 1 from
level 1 on; fields in tags are lost in version 0. Encoded by hand, without `logstore/words/schema`: each end
of a transaction writes three records, and a load must read 100,000 of them in a second.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.groupcoord.transactions.transaction import (
    CLIENT_V1,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Transaction,
)
from ottla.groupcoord.transactions.transaction_config import EXHAUSTED_EPOCH
from ottla.groupcoord.transactions.transaction_state import AT_REST, TransactionState
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.topic_partition import TopicPartition

TRANSACTIONS_TOPIC: Final = "__transaction_state"
TRANSACTION_KEY: Final = 0  # the only kind of record

_STATUS: Final = {
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
}
_STATES: Final = {status: state for state, status in _STATUS.items()}
_HEAD = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, status
_TIMES = struct.Struct(">qq")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_TAG_PREVIOUS_ID: Final = 0
_TAG_NEXT_ID: Final = 1
_TAG_CLIENT_VERSION: Final = 2
_TAG_NEXT_EPOCH: Final = 3
_TAG_FORMATS: Final = {
    _TAG_PREVIOUS_ID: _INT64,
    _TAG_NEXT_ID: _INT64,
    _TAG_CLIENT_VERSION: _INT16,
    _TAG_NEXT_EPOCH: _INT16,
}
_MAX_VARINT_BYTES: Final = 5


class TransactionRecord(NamedTuple):
    """The present state of an id; with `value` None, its tombstone."""

    transactional_id: str
    value: Transaction | None


# ---- writing -----------------------------------------------------------------------------------------------


def encode_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return b"\x00\x00" + _INT16.pack(len(name)) + name


def encode_value(t: Transaction, level: int) -> bytes:
    """Return the value in the version that this level of `transaction.version` writes."""
    status = _STATUS[t.state]
    times = _TIMES.pack(t.last_update_ms, t.start_ms)
    if level < 1:
        head = _HEAD.pack(0, t.producer_id, t.producer_epoch, t.timeout_ms, status)
        return head + _plain_partitions(t) + times
    head = _HEAD.pack(1, t.producer_id, t.producer_epoch, t.timeout_ms, status)
    return head + _compact_partitions(t) + times + _tags(t)


def value_size_bytes(t: Transaction) -> int:
    """Return an upper bound of a value's bytes."""
    return 128 + sum(16 + 3 * len(one.topic) for one in t.partitions)


def _plain_partitions(t: Transaction) -> bytes:
    if t.state is TransactionState.EMPTY:
        return b"\xff\xff\xff\xff"
    topics = _by_topic(t.partitions)
    parts = [_INT32.pack(len(topics))]
    for topic, partitions in topics:
        name = topic.encode()
        parts += _INT16.pack(len(name)), name
        parts.append(struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return b"".join(parts)


def _compact_partitions(t: Transaction) -> bytes:
    if t.state is TransactionState.EMPTY:
        return b"\x00"
    if not t.partitions:
        return b"\x01"
    topics = _by_topic(t.partitions)
    parts = [_varint(len(topics) + 1)]
    for topic, partitions in topics:
        name = topic.encode()
        parts += _varint(len(name) + 1), name, _varint(len(partitions) + 1)
        parts.append(struct.pack(f">{len(partitions)}ix", *partitions))  # and no tags
    return b"".join(parts)


def _tags(t: Transaction) -> bytes:
    parts = [b""]
    if t.previous_producer_id != NO_PRODUCER_ID:
        parts.append(b"\x00\x08" + _INT64.pack(t.previous_producer_id))
    if t.next_producer_id != NO_PRODUCER_ID:
        parts.append(b"\x01\x08" + _INT64.pack(t.next_producer_id))
    if t.client_version != CLIENT_V1:
        parts.append(b"\x02\x02" + _INT16.pack(t.client_version))
    if t.next_producer_epoch != NO_EPOCH:
        parts.append(b"\x03\x02" + _INT16.pack(t.next_producer_epoch))
    parts[0] = bytes((len(parts) - 1,))
    return b"".join(parts)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return partitions by topic, in the order of names, so that equal states have equal bytes."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# ---- reading -----------------------------------------------------------------------------------------------


def decode_key(key: Buffer) -> str | None:
    """Return the transactional id; None for a kind of record that this version does not know.

    KafkaError(CORRUPT_MESSAGE) for bytes that are no key.
    """
    if len(key) < 2:
        raise _corrupt(f"a key is {len(key)} bytes long")
    kind = _INT16.unpack_from(key)[0]
    if kind < 0:
        raise _corrupt(f"a key has the type {kind}")
    if kind != TRANSACTION_KEY:
        return None
    try:
        (length,) = _INT16.unpack_from(key, 2)
        if length < 0 or 4 + length > len(key):
            raise _corrupt(f"a key of {len(key)} bytes has an id of {length} bytes")
        return bytes(key[4 : 4 + length]).decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise _corrupt(f"a key is not a transactional id: {error}") from error


def decode_value(transactional_id: str, value: Buffer) -> Transaction | None:
    """Return the state of an id; None for a version of the schema that this release does not know.

    KafkaError(CORRUPT_MESSAGE) for bytes that are no value. Every count is bounded by the bytes that are
    there.
    """
    try:
        version = _INT16.unpack_from(value)[0]
        if version not in (0, 1):
            return None
        _, producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(value)
        state = _STATES.get(status)
        if state is None:
            raise _corrupt(f"the status {status} is unknown")
        position = _HEAD.size
        if version == 0:
            partitions, position = _read_plain_partitions(value, position)
        elif value[position] == 1:
            partitions, position = NO_PARTITIONS, position + 1
        else:
            partitions, position = _read_compact_partitions(value, position)
        last_update_ms, start_ms = _TIMES.unpack_from(value, position)
        tags = _read_tags(value, position + _TIMES.size) if version == 1 else {}
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _corrupt(f"a value of {len(value)} bytes is not valid: {error}") from error
    if state is TransactionState.EMPTY:
        partitions = NO_PARTITIONS
    elif partitions is None:
        raise _corrupt(f"the state {state.value} has no partitions")
    next_id, next_epoch = tags.get(_TAG_NEXT_ID, NO_PRODUCER_ID), tags.get(_TAG_NEXT_EPOCH, NO_EPOCH)
    if producer_id < 0 or epoch < 0:
        raise _corrupt(f"the producer {producer_id} has epoch {epoch}")
    if next_epoch != NO_EPOCH and (state in AT_REST or next_id < 0 or not 0 <= next_epoch <= EXHAUSTED_EPOCH):
        raise _corrupt(f"the state {state.value} has a next producer {next_id} of epoch {next_epoch}")
    if state in AT_REST and partitions:
        raise _corrupt(f"the state {state.value} has {len(partitions)} partitions")
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        previous_producer_id=tags.get(_TAG_PREVIOUS_ID, NO_PRODUCER_ID),
        next_producer_id=next_id,
        producer_epoch=epoch,
        next_producer_epoch=next_epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        start_ms=start_ms,
        last_update_ms=last_update_ms,
        client_version=tags.get(_TAG_CLIENT_VERSION, CLIENT_V1),
    )


def _read_plain_partitions(value: Buffer, position: int) -> tuple[frozenset[TopicPartition] | None, int]:
    (count,) = _INT32.unpack_from(value, position)
    position += 4
    if count < 0:
        return None, position
    found: list[TopicPartition] = []
    for _ in range(_bounded(count, 6, value, position)):
        (length,) = _INT16.unpack_from(value, position)
        topic, position = _read_text(value, position + 2, length)
        (size,) = _INT32.unpack_from(value, position)
        position += 4
        _bounded(size, 4, value, position)
        found += [TopicPartition(topic, each) for each in struct.unpack_from(f">{size}i", value, position)]
        position += 4 * size
    return frozenset(found), position


def _read_compact_partitions(value: Buffer, position: int) -> tuple[frozenset[TopicPartition] | None, int]:
    count, position = _read_varint(value, position)
    if count == 0:
        return None, position
    found: list[TopicPartition] = []
    for _ in range(_bounded(count - 1, 3, value, position)):
        length, position = _read_varint(value, position)
        topic, position = _read_text(value, position, length - 1)
        size, position = _read_varint(value, position)
        size = _bounded(size - 1, 4, value, position)
        found += [TopicPartition(topic, each) for each in struct.unpack_from(f">{size}i", value, position)]
        position = _skip_tags(value, position + 4 * size)
    return frozenset(found), position


def _read_tags(value: Buffer, position: int) -> dict[int, int]:
    """Return the known tags by number; others are skipped (KIP-482)."""
    found: dict[int, int] = {}
    count, position = _read_varint(value, position)
    for _ in range(_bounded(count, 2, value, position)):
        tag, position = _read_varint(value, position)
        size, position = _read_varint(value, position)
        if position + size > len(value):
            raise _corrupt(f"tag {tag} of {size} bytes does not fit in a value of {len(value)}")
        number = _TAG_FORMATS.get(tag)
        if number is not None:
            if number.size != size:
                raise _corrupt(f"tag {tag} cannot have {size} bytes")
            found[tag] = number.unpack_from(value, position)[0]
        position += size
    return found


def _skip_tags(value: Buffer, position: int) -> int:
    count, position = _read_varint(value, position)
    for _ in range(_bounded(count, 2, value, position)):
        _, position = _read_varint(value, position)
        size, position = _read_varint(value, position)
        position += size
    return position


def _read_text(value: Buffer, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if length < 0 or end > len(value):
        raise _corrupt(f"a name of {length} bytes does not fit in a value of {len(value)}")
    return bytes(value[position:end]).decode(), end


def _read_varint(value: Buffer, position: int) -> tuple[int, int]:
    number = value[position]
    position += 1
    if number < 0x80:
        return number, position
    number &= 0x7F
    for shift in range(7, 7 * _MAX_VARINT_BYTES, 7):
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise _corrupt("a length has too many bytes")


def _bounded(count: int, least_bytes: int, value: Buffer, position: int) -> int:
    if count < 0 or count * least_bytes > len(value) - position:
        raise _corrupt(f"a list of {count} entries has only {len(value) - position} bytes")
    return count


def _corrupt(detail: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"A record of {TRANSACTIONS_TOPIC} cannot be read: {detail}."
    )
