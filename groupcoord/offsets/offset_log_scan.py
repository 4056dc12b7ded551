"""Scans the log of a shard for the last record of every key.

A commit writes the same key again and again, so the bytes of an offset's value stay as they are
(`offset_values`) until the offset is read.

Scanning gives the result of replaying record by record, because records of different keys do not depend on
each other's order: offsets without a group make one after all is read (`shard`).
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.groupcoord.group_records import OFFSET_KEY
from ottla.groupcoord.log_scan import LogBatch, Pauses, Unreadable, feed_batches, iterate_keys, paused
from ottla.groupcoord.offsets.offset_store import Offsets, OffsetStore
from ottla.groupcoord.offsets.offset_values import is_offset_value
from ottla.groupcoord.offsets.pending_offsets import OffsetKey, PendingOffsets
from ottla.logstore.record import ControlType, iterate_records, parse_marker
from ottla.logstore.record_batch import CONTROL_BIT, HEADER_SIZE, TRANSACTIONAL_BIT

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


class ScannedLog(NamedTuple):
    """The content of a log. Every value of `offsets` and `pending` can be read."""

    offsets: OffsetStore
    pending: PendingOffsets
    others: Sequence[tuple[bytes, bytes | None]]  # last record of every other key, in the order of the log
    unreadable: Unreadable


class _GroupTopic(NamedTuple):
    """The offsets of one topic in one group."""

    partitions: dict[int, bytes]
    group_id: str
    topic: str


class OffsetLogScan:
    """A scan of a log of groups: `feed` it the log from its start, then `finish`."""

    def __init__(self, pause: Callable[[], None] = lambda: None) -> None:
        self._pauses = Pauses(pause)
        self._unreadable = Unreadable()
        self._offsets: Offsets = {}
        self._group_topics: dict[bytes, _GroupTopic] = {}  # by the key without its partition
        self._topics: dict[str, str] = {}  # one string for each name, however many groups read the topic
        self._pending = PendingOffsets()
        self._others: dict[bytes, bytes | None] = {}

    # ---- batches -------------------------------------------------------------------------------------------

    def feed(self, content: bytes) -> int:
        """Take the whole batches at the start of `content`, as `LogScan` says."""
        return feed_batches(content, self._take_batch, self._pauses)

    def _take_batch(self, content: bytes, batch: LogBatch) -> None:
        if batch.attributes & CONTROL_BIT:
            self._end_transactions(content[batch.start : batch.end], batch.producer_id, batch.records)
        else:
            self._add_records(content, batch)

    def _end_transactions(self, batch: bytes, producer_id: int, count: int) -> None:
        committed = _PLAIN_MARKERS.get(batch[HEADER_SIZE:-_MARKER_TAIL_BYTES]) if count == 1 else None
        if committed is not None and len(batch) == _PLAIN_MARKER_BATCH_BYTES:
            self._end_transaction(producer_id, committed=committed)
            return
        for record in paused(iterate_records(batch), self._pauses.pause):
            marker = parse_marker(record)
            if marker is not None:
                is_commit = marker.control_type is ControlType.COMMIT
                self._end_transaction(producer_id, committed=is_commit)

    def _end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for (group_id, topic, partition), value in self._pending.end(producer_id, committed=committed):
            self._partitions(group_id, topic)[partition] = value

    # ---- records -------------------------------------------------------------------------------------------

    def _add_records(self, content: bytes, batch: LogBatch) -> None:
        group_topics, pending = self._group_topics, self._pending
        has_pending = bool(pending)
        producer = batch.producer_id if batch.attributes & TRANSACTIONAL_BIT else None
        for key, value in iterate_keys(content, batch, self._pauses.pause):
            group_topic = group_topics.get(key[:-4])  # only keys of offsets begin like one that was there
            if group_topic is None or value is None or producer is not None:
                self._add(key, value, producer)
                continue
            (partition,) = _INT32.unpack_from(key, len(key) - 4)
            group_topic.partitions[partition] = value
            if has_pending:
                pending.supersede(OffsetKey(group_topic.group_id, group_topic.topic, partition))

    def _add(self, key: bytes, value: bytes | None, producer: int | None) -> None:
        """Add a record of any kind."""
        kind = _kind_of(key)
        if kind < 0:
            self._unreadable.add(f"a key of {len(key)} bytes has no known type")
        elif kind <= OFFSET_KEY:
            prefix = key[:-4]
            group_topic = self._group_topics.get(prefix)
            if group_topic is None:
                names = _names_of(prefix)
                if names is None:
                    self._unreadable.add(f"a key of {len(key)} bytes does not name an offset")
                    return
                topic = self._topics.setdefault(names[1], names[1])
                group_topic = _GroupTopic(self._partitions(names[0], topic), names[0], topic)
                self._group_topics[prefix] = group_topic
            self._put(group_topic, _INT32.unpack_from(key, len(key) - 4)[0], value, producer)
        else:
            self._others.pop(key, None)  # so that it moves to the end, into the order of the log
            self._others[key] = value

    def _put(
        self, group_topic: _GroupTopic, partition: int, value: bytes | None, producer: int | None
    ) -> None:
        key = OffsetKey(group_topic.group_id, group_topic.topic, partition)
        if value is None:
            group_topic.partitions.pop(partition, None)
            self._pending.remove(key)
        elif producer is None:
            group_topic.partitions[partition] = value
            self._pending.supersede(key)
        elif is_offset_value(value):
            self._pending.put(producer, key, value)
        else:
            self._unreadable.add(f"an offset of {group_topic.topic}-{partition} cannot be read")

    def _partitions(self, group_id: str, topic: str) -> dict[int, bytes]:
        return self._offsets.setdefault(group_id, {}).setdefault(topic, {})

    # ---- the end -------------------------------------------------------------------------------------------

    def finish(self) -> ScannedLog:
        """Return the content of the log; the scan cannot be used after that."""
        offsets: Offsets = {}
        for group_id, topics in self._offsets.items():
            left = {
                topic: partitions
                for topic, partitions in topics.items()
                if self._drop_unreadable(topic, partitions)
            }
            if left:
                offsets[group_id] = left
        others = list(self._others.items())
        return ScannedLog(OffsetStore(offsets), self._pending, others, self._unreadable)

    def _drop_unreadable(self, topic: str, partitions: dict[int, bytes]) -> bool:
        """Remove values that cannot be read; return True if any are left."""
        unreadable = [each for each, value in partitions.items() if not is_offset_value(value)]
        for partition in unreadable:
            del partitions[partition]
            self._unreadable.add(f"an offset of {topic}-{partition} cannot be read")
        self._pauses.count(len(partitions))
        return bool(partitions)


def _kind_of(key: bytes) -> int:
    """Return the int16 that a key begins with, or -1 for a shorter one."""
    return _INT16.unpack_from(key)[0] if len(key) >= 2 else -1


def _names_of(prefix: bytes) -> tuple[str, str] | None:
    """Return group and topic in an offset's key without its partition, or None if they do not fill it."""
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
