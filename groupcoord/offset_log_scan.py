"""The log of a shard, scanned down to what is left of it: the last record of every key.

A commit writes the same key again and again, and only the last one counts, so bytes are looked at, not
decoded: one `Struct` reads a batch's header, the varints of a record are read where they stand, and an
offset's value stays as it is (`offset_values`). Half a million records a second on one core, which the
generic reader of records cannot give; it is asked for whatever is not of the usual shape, and judges it.

Scanning equals replaying record by record, because records of different keys do not depend on each other's
order: offsets whose group is not there make it when all is read (`shard`). The scan is pure and shares
nothing, so a thread can do it.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from groupcoord.group_records import OFFSET_KEY
from groupcoord.offset_store import Offsets, OffsetStore
from groupcoord.offset_values import is_offset_value
from groupcoord.pending_offsets import OffsetKey, PendingOffsets
from logstore.compression import decompress
from logstore.errors import ErrorCode, KafkaError
from logstore.record import ControlType, iterate_records, parse_marker
from logstore.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_BIT,
    compression_of,
)

# Records between two calls of `pause`: a millisecond or two, so that a thread lets the event loop in.
PAUSE_RECORDS: Final = 1_000
# Records that are not readable are told one by one up to here; a log full of them must not fill the memory.
MAX_UNREADABLE: Final = 100

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_CONTROL_KEY = struct.Struct(">hh")  # version, type
_MIN_OFFSET_KEY_BYTES: Final = 10  # kind, two lengths, partition
# A marker as every Kafka writes it, up to its value: 16 bytes, no attributes, no deltas, a key of 4 (version
# 0, the type), a value of 6 (version 0, and then the epoch of the transaction coordinator).
_PLAIN_MARKERS: Final = {
    b"\x20\x00\x00\x00\x08" + _CONTROL_KEY.pack(0, each) + b"\x0c\x00\x00": each is ControlType.COMMIT
    for each in ControlType
}
_MARKER_TAIL_BYTES: Final = 5  # epoch, count of headers
_PLAIN_MARKER_BATCH_BYTES: Final = HEADER_SIZE + 17


class Unreadable:
    """What was left out because it could not be read, for the log of the node."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []  # at most MAX_UNREADABLE

    def add(self, what: str) -> None:
        self.count += 1
        if len(self.first) < MAX_UNREADABLE:
            self.first.append(what)


class ScannedLog(NamedTuple):
    """What is left of a log. Every value of `offsets` and `pending` can be read."""

    offsets: OffsetStore
    pending: PendingOffsets
    others: Sequence[tuple[bytes, bytes | None]]  # last record of every other key, in the order of the log
    unreadable: Unreadable


class _Place(NamedTuple):
    """Where the offsets of one topic in one group are kept."""

    partitions: dict[int, bytes]
    group_id: str
    topic: str


class LogScan:
    """Feed it the log from its start, then `finish`.

    `pause` is called every `PAUSE_RECORDS` or so; what it raises ends the scan.
    """

    def __init__(self, pause: Callable[[], None] = lambda: None) -> None:
        self._pause = pause
        self._offsets: Offsets = {}
        self._places: dict[bytes, _Place] = {}  # by the key without its partition
        self._topics: dict[str, str] = {}  # one string for each name, however many groups read the topic
        self._pending = PendingOffsets()
        self._others: dict[bytes, bytes | None] = {}
        self._unreadable = Unreadable()
        self._records_since_pause = 0

    # ---- batches -------------------------------------------------------------------------------------------

    def feed(self, content: bytes) -> int:
        """Take the whole batches at the start of `content`; the offset after the last one, -1 if there is
        none.

        Half a batch at the end is left for the next piece. KafkaError (CORRUPT_MESSAGE, INVALID_RECORD) for
        bytes that are no log.
        """
        position, size, next_offset = 0, len(content), -1
        while size - position >= HEADER_SIZE:
            (base_offset, length, _, magic, _, attributes, last_delta, _, _, producer_id, _, _, count) = (
                HEADER.unpack_from(content, position)
            )
            end = position + LOG_OVERHEAD + length
            if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC or last_delta < 0:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"A batch of format {magic} says that {length} bytes and {last_delta} offsets follow.",
                )
            if end > size:
                break
            if attributes & CONTROL_BIT:
                self._end_transactions(content[position:end], producer_id, count)
            else:
                self._add_batch(content, position, end, attributes, producer_id, count)
            position, next_offset = end, base_offset + last_delta + 1
            self._records_since_pause += count
            if self._records_since_pause >= PAUSE_RECORDS:
                self._records_since_pause = 0
                self._pause()
        return next_offset

    def _add_batch(
        self, content: bytes, position: int, end: int, attributes: int, producer_id: int, count: int
    ) -> None:
        producer = producer_id if attributes & TRANSACTIONAL_BIT else None
        if attributes & COMPRESSION_MASK:
            body = memoryview(content)[position + HEADER_SIZE : end]
            records = bytes(decompress(compression_of(attributes), body))
            is_done = self._add_records(records, 0, len(records), count, producer)
        else:
            is_done = self._add_records(content, position + HEADER_SIZE, end, count, producer)
        if not is_done:
            # Once more from the first record: what was taken already is only taken again.
            for record in iterate_records(memoryview(content)[position:end]):
                if record.key is not None:
                    self._add(record.key, record.value, producer)

    def _end_transactions(self, batch: bytes, producer_id: int, count: int) -> None:
        committed = _PLAIN_MARKERS.get(batch[HEADER_SIZE:-_MARKER_TAIL_BYTES]) if count == 1 else None
        if committed is not None and len(batch) == _PLAIN_MARKER_BATCH_BYTES:
            self._end_transaction(producer_id, committed=committed)
            return
        for record in iterate_records(batch):
            marker = parse_marker(record)
            if marker is not None:
                is_commit = marker.control_type is ControlType.COMMIT
                self._end_transaction(producer_id, committed=is_commit)

    def _end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for (group_id, topic, partition), value in self._pending.end(producer_id, committed=committed):
            self._partitions(group_id, topic)[partition] = value

    # ---- records -------------------------------------------------------------------------------------------

    def _add_records(
        self, content: bytes, position: int, batch_end: int, count: int, producer: int | None
    ) -> bool:
        """Take `count` records of the usual shape: lengths of one or two bytes, a key, no headers.

        False at the first that looks otherwise, or does not fill exactly the place that it claims;
        `iterate_records` then tells a strange record from bytes that are none.
        """
        places, pending = self._places, self._pending
        is_careful = producer is not None or bool(pending)
        try:
            for _ in range(count):
                length = content[position]
                position += 1
                if length >= 0x80:
                    more = content[position]
                    position += 1
                    length += (more << 7) - 0x80
                    if more >= 0x80:
                        return False
                end = position + (length >> 1)
                position += 1  # attributes
                while content[position] >= 0x80:  # timestamp delta
                    position += 1
                position += 1
                while content[position] >= 0x80:  # offset delta
                    position += 1
                position += 1
                key_length = content[position]
                position += 1
                if key_length >= 0x80:
                    more = content[position]
                    position += 1
                    key_length += (more << 7) - 0x80
                    if more >= 0x80:
                        return False
                key_start, position = position, position + (key_length >> 1)
                key_end = position
                value_length = content[position]
                position += 1
                value: bytes | None = None
                if value_length != 1:  # -1, for null
                    if value_length >= 0x80:
                        more = content[position]
                        position += 1
                        value_length += (more << 7) - 0x80
                        if more >= 0x80:
                            return False
                    value_end = position + (value_length >> 1)
                    value = content[position:value_end]
                    position = value_end
                # An odd length is a negative one. A header count of 0 is the record's last byte.
                if (
                    (length | key_length) & 1
                    or (value is not None and value_length & 1)
                    or position + 1 != end
                    or end > batch_end
                    or content[position]
                ):
                    return False
                position = end
                if (
                    content[key_start]
                    or content[key_start + 1] > OFFSET_KEY
                    or key_end - key_start < _MIN_OFFSET_KEY_BYTES
                ):
                    self._add(content[key_start:key_end], value, producer)
                    continue
                place = places.get(content[key_start : key_end - 4])
                if place is None:
                    self._add(content[key_start:key_end], value, producer)
                    continue
                (partition,) = _INT32.unpack_from(content, key_end - 4)
                if value is not None and producer is None:
                    place.partitions[partition] = value
                    if is_careful:
                        pending.beat(OffsetKey(place.group_id, place.topic, partition))
                else:
                    self._put(place, partition, value, producer)
        except IndexError:
            return False
        return position == batch_end

    def _add(self, key: bytes, value: bytes | None, producer: int | None) -> None:
        """Any record, of whatever kind."""
        kind = _kind_of(key)
        if kind < 0:
            self._unreadable.add(f"a key of {len(key)} bytes is of no kind")
        elif kind <= OFFSET_KEY:
            prefix = key[:-4]
            place = self._places.get(prefix)
            if place is None:
                names = _names_of(prefix)
                if names is None:
                    self._unreadable.add(f"a key of {len(key)} bytes names no offset")
                    return
                topic = self._topics.setdefault(names[1], names[1])
                place = _Place(self._partitions(names[0], topic), names[0], topic)
                self._places[prefix] = place
            self._put(place, _INT32.unpack_from(key, len(key) - 4)[0], value, producer)
        else:
            self._others.pop(key, None)  # so that it moves to the end, into the order of the log
            self._others[key] = value

    def _put(self, place: _Place, partition: int, value: bytes | None, producer: int | None) -> None:
        key = OffsetKey(place.group_id, place.topic, partition)
        if value is None:
            place.partitions.pop(partition, None)
            self._pending.remove(key)
        elif producer is None:
            place.partitions[partition] = value
            self._pending.beat(key)
        elif is_offset_value(value):
            self._pending.put(producer, key, value)
        else:
            self._unreadable.add(f"an offset of {place.topic}-{partition} is not readable")

    def _partitions(self, group_id: str, topic: str) -> dict[int, bytes]:
        return self._offsets.setdefault(group_id, {}).setdefault(topic, {})

    # ---- the end -------------------------------------------------------------------------------------------

    def finish(self) -> ScannedLog:
        """What is left; the scan is used no more."""
        offsets: Offsets = {}
        for group_id, topics in self._offsets.items():
            left = {
                topic: partitions for topic, partitions in topics.items() if self._judge(topic, partitions)
            }
            if left:
                offsets[group_id] = left
        others = list(self._others.items())
        return ScannedLog(OffsetStore(offsets), self._pending, others, self._unreadable)

    def _judge(self, topic: str, partitions: dict[int, bytes]) -> bool:
        """Remove what is no offset's value; whether any is left."""
        unreadable = [each for each, value in partitions.items() if not is_offset_value(value)]
        for partition in unreadable:
            del partitions[partition]
            self._unreadable.add(f"an offset of {topic}-{partition} is not readable")
        self._records_since_pause += len(partitions)
        if self._records_since_pause >= PAUSE_RECORDS:
            self._records_since_pause = 0
            self._pause()
        return bool(partitions)


def _kind_of(key: bytes) -> int:
    """The int16 that a key begins with, -1 if there is none."""
    return _INT16.unpack_from(key)[0] if len(key) >= 2 else -1


def _names_of(prefix: bytes) -> tuple[str, str] | None:
    """Group and topic in the key of an offset without its partition; None if they do not fill it exactly."""
    if len(prefix) < _MIN_OFFSET_KEY_BYTES - 4:
        return None
    (group_length,) = _INT16.unpack_from(prefix, 2)
    group_end = 4 + group_length
    if group_length < 0 or group_end + 2 > len(prefix):
        return None
    (topic_length,) = _INT16.unpack_from(prefix, group_end)
    if topic_length < 0 or group_end + 2 + topic_length != len(prefix):
        return None
    try:
        return prefix[4:group_end].decode(), prefix[group_end + 2 :].decode()
    except UnicodeDecodeError:
        return None
