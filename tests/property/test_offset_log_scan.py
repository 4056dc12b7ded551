"""The scan of a shard's log, against a model that takes one record after the other, not bytes."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groupcoord.group_records import GroupMetadataRecord, OffsetCommitValue, OffsetRecord
from ottla.groupcoord.offsets.offset_log_scan import OffsetLogScan, ScannedLog
from ottla.groupcoord.offsets.offset_values import is_offset_value, pack_offset_value, read_offset_value
from ottla.groupcoord.offsets.pending_offsets import OffsetKey
from ottla.groupcoord.record_codec import encode_key
from ottla.logstore.compression import Compression
from ottla.logstore.record import ControlType, EndTransactionMarker, Record, build_batch, build_marker
from ottla.logstore.words.errors import KafkaError

GROUPS = ["g", "group-" * 12, ""]
TOPICS = ["t", "überaus-lang" * 8]
PRODUCERS = [7, 2**40]


@dataclass
class Write:
    """A batch of records, each a key and a value."""

    records: Sequence[tuple[bytes, bytes | None]]
    producer: int | None
    compression: Compression
    gap: int  # offsets that compaction removed before each record
    has_headers: bool

    def batch(self, base_offset: int) -> bytes:
        headers = (("h", b"x"),) if self.has_headers else ()
        records = [
            Record(base_offset + index * (1 + self.gap), 1_000 + index, key, value, headers)
            for index, (key, value) in enumerate(self.records)
        ]
        return bytes(
            build_batch(
                records,
                compression=self.compression,
                base_offset=base_offset,
                last_offset=base_offset + len(records) * (1 + self.gap),
                producer_id=-1 if self.producer is None else self.producer,
                producer_epoch=-1 if self.producer is None else 0,
                is_transactional=self.producer is not None,
            )
        )


@dataclass
class Marker:
    """The end of a transaction."""

    producer: int
    type: ControlType

    def batch(self, base_offset: int) -> bytes:
        marker = EndTransactionMarker(self.type, 0)
        return bytes(
            build_marker(
                marker, producer_id=self.producer, producer_epoch=0, timestamp_ms=0, base_offset=base_offset
            )
        )


@dataclass
class Model:
    """The state of Kafka's coordinator after every record, in the simplest form."""

    offsets: dict[OffsetKey, tuple[int, bytes]] = field(default_factory=dict)
    pending: dict[int, dict[OffsetKey, tuple[int, bytes]]] = field(default_factory=dict)
    others: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    count: int = 0

    def take(self, batch: Write | Marker) -> None:
        if isinstance(batch, Marker):
            ended = self.pending.pop(batch.producer, {})
            for key, entry in ended.items() if batch.type is ControlType.COMMIT else ():
                if key not in self.offsets or entry[0] > self.offsets[key][0]:
                    self.offsets[key] = entry
            return
        for key_bytes, value in batch.records:
            self.count += 1
            key = offset_key(key_bytes)
            if key is None:
                self.others[key_bytes] = (self.count, value)
            elif value is None:
                self.offsets.pop(key, None)
                for entries in self.pending.values():
                    entries.pop(key, None)
            elif batch.producer is None:
                self.offsets[key] = (self.count, value)
            else:
                self.pending.setdefault(batch.producer, {})[key] = (self.count, value)


def offset_key(key: bytes) -> OffsetKey | None:
    if key[:2] not in (b"\0\0", b"\0\1"):
        return None
    (group_length,) = struct.unpack_from(">h", key, 2)
    topic = key[6 + group_length : -4]
    return OffsetKey(key[4 : 4 + group_length].decode(), topic.decode(), int.from_bytes(key[-4:]))


OFFSET_KEYS = st.builds(
    lambda group, topic, partition, is_old: (
        (b"\0\0" if is_old else b"\0\1") + encode_key(OffsetRecord(group, topic, partition, None))[2:]
    ),
    st.sampled_from(GROUPS),
    st.sampled_from(TOPICS),
    st.integers(0, 1),
    st.booleans(),
)
OFFSET_VALUES = st.builds(
    lambda offset, metadata, topic_id, expire: pack_offset_value(
        OffsetCommitValue(
            offset=offset,
            metadata=metadata,
            commit_timestamp=5,
            expire_timestamp=expire,
            topic_id=topic_id if expire == -1 else bytes(16),
        )
    ),
    st.integers(-1, 2**63 - 1),
    st.sampled_from(["", "m", "ü" * 90, "x" * 9_000]),
    st.sampled_from([bytes(16), bytes(range(16))]),
    st.sampled_from([-1, -1, 77]),
)
OTHER_KEYS = st.sampled_from(
    [encode_key(GroupMetadataRecord(group, None)) for group in GROUPS]
    + [kind.to_bytes(2) + b"\0\1g" for kind in (3, 16, 23, 99)]
)
SAME_KEY = encode_key(OffsetRecord("g", "t", 0, None))  # frequent, so that writers conflict
RECORDS = st.tuples(st.just(SAME_KEY) | OFFSET_KEYS, st.none() | OFFSET_VALUES) | st.tuples(
    OTHER_KEYS, st.none() | st.binary(max_size=300)
)
WRITES = st.builds(
    Write,
    st.lists(RECORDS, max_size=6),
    st.sampled_from([None, None, *PRODUCERS]),
    st.sampled_from(Compression),
    st.sampled_from([0, 0, 200]),
    st.sampled_from([False, False, True]),
)
MARKERS = st.builds(Marker, st.sampled_from(PRODUCERS), st.sampled_from(ControlType))
LOGS = st.lists(WRITES | MARKERS, max_size=12)


def scan(log: bytes, pieces: int = 1) -> ScannedLog:
    """Scan a log as a node does, in pieces that may end in the middle of a batch."""
    found, start, size = OffsetLogScan(), 0, len(log)
    at = {int.from_bytes(log[:8]): 0}  # offset -> position
    position = 0
    while position < size:
        following = position + 12 + int.from_bytes(log[position + 8 : position + 12])
        last_delta = int.from_bytes(log[position + 23 : position + 27])
        at[int.from_bytes(log[position : position + 8]) + last_delta + 1] = following
        position = following
    end = 0
    while start < size:
        end = min(size, max(start, end) + max(1, size // pieces))
        next_offset = found.feed(log[start:end])
        if next_offset >= 0:
            start = at[next_offset]
    return found.finish()


@pytest.mark.slow
@given(LOGS, st.integers(1, 5))
def test_a_scan_gives_the_same_state_as_replaying_every_record(
    log: list[Write | Marker], pieces: int
) -> None:
    model, content, offset = Model(), b"", 0
    for each in log:
        model.take(each)
        batch = each.batch(offset)
        content += batch
        offset += int.from_bytes(batch[23:27]) + 1

    found = scan(content, pieces)

    committed = {
        OffsetKey(group_id, topic, partition): value
        for group_id in found.offsets.groups()
        for topic, partitions in found.offsets.topics_of(group_id).items()
        for partition, value in partitions.items()
    }
    assert committed == {key: value for key, (_, value) in model.offsets.items()}
    assert list(found.others) == [
        (key, value) for key, (_, value) in sorted(model.others.items(), key=lambda item: item[1][0])
    ]
    assert found.unreadable.count == 0
    found.pending.check_invariants()
    still_open = {key for entries in model.pending.values() for key in entries}
    assert {key for group_id in GROUPS for key in found.pending.keys_of(group_id)} == still_open
    for producer in PRODUCERS:
        end = Marker(producer, ControlType.COMMIT)
        before = dict(model.offsets)
        model.take(end)
        changed = {key: each[1] for key, each in model.offsets.items() if before.get(key) != each}
        assert dict(found.pending.end(producer, committed=True)) == changed
        found.pending.check_invariants()


def compact(log: list[Write | Marker], upto: int) -> list[Write | Marker]:
    """Return the log after compaction of its first `upto` batches, all before the first open transaction.

    The last record of each key is left, and no record of an aborted transaction; records of a committed
    transaction count at their own offsets.
    """
    ended: dict[int, ControlType] = {}
    committed: list[bool] = []
    for batch in reversed(log):  # the marker of a transaction may be beyond `upto`
        if isinstance(batch, Marker):
            ended[batch.producer] = batch.type
        committed.append(
            isinstance(batch, Write)
            and (batch.producer is None or ended.get(batch.producer) is ControlType.COMMIT)
        )
    committed.reverse()
    last = {
        key: (place, index)
        for place, batch in enumerate(log[:upto])
        if isinstance(batch, Write) and committed[place]
        for index, (key, _) in enumerate(batch.records)
    }
    left: list[Write | Marker] = []
    for place, batch in enumerate(log):
        if place < upto and isinstance(batch, Write):
            records = [row for index, row in enumerate(batch.records) if last.get(row[0]) == (place, index)]
            batch = replace(batch, records=records)
        left.append(batch)
    return left


def as_coordinators_write(batch: Write | Marker) -> Write | Marker:
    """Return a batch with the records that a coordinator writes: in a transaction, only offset commits."""
    if isinstance(batch, Marker) or batch.producer is None:
        return batch
    records = [row for row in batch.records if row[1] is not None and offset_key(row[0]) is not None]
    return replace(batch, records=records)


def stable_prefix(log: list[Write | Marker]) -> int:
    """Return the number of batches before the first batch of a transaction that stays open."""
    first: dict[int, int] = {}
    for place, batch in enumerate(log):
        if isinstance(batch, Marker):
            first.pop(batch.producer, None)
        elif batch.producer is not None:
            first.setdefault(batch.producer, place)
    return min(first.values(), default=len(log))


def scanned(log: list[Write | Marker]) -> ScannedLog:
    content, offset = b"", 0
    for each in log:
        batch = each.batch(offset)
        content += batch
        offset += int.from_bytes(batch[23:27]) + 1
    return scan(content)


@pytest.mark.slow
@given(LOGS, st.floats(0, 1))
def test_compaction_does_not_change_the_scanned_state(log: list[Write | Marker], share: float) -> None:
    log = [as_coordinators_write(batch) for batch in log]
    upto = stable_prefix(log[: int(share * len(log)) + 1])
    compacted = compact(log, min(upto, int(share * len(log)) + 1))

    whole, left = scanned(log), scanned(compacted)

    for producer in PRODUCERS:
        for found in (whole, left):
            for (group_id, topic, partition), value in found.pending.end(producer, committed=True):
                found.offsets.put(group_id, topic, partition, value)
    assert left.offsets._groups == whole.offsets._groups
    assert dict(left.others) == dict(whole.others)


@pytest.mark.slow
@given(
    LOGS,
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_tampered_bytes_are_rejected_or_read(
    log: list[Write | Marker], changes: list[tuple[float, int]]
) -> None:
    content = bytearray(b"".join(each.batch(offset) for offset, each in enumerate(log)) or b"?")
    for place, byte in changes:
        content[int(place * len(content))] = byte
    scanned = OffsetLogScan()

    try:
        scanned.feed(bytes(content))
    except KafkaError:
        pass
    found = scanned.finish()

    found.offsets.check_invariants()
    for group_id in found.offsets.groups():
        for partitions in found.offsets.topics_of(group_id).values():
            for value in partitions.values():
                read_offset_value(value)


@pytest.mark.slow
@given(st.binary(max_size=60) | OFFSET_VALUES, st.integers(0, 30), st.integers(0, 255))
def test_a_value_counted_as_readable_is_readable(content: bytes, place: int, byte: int) -> None:
    changed = bytearray(content)
    changed[place : place + 1] = bytes([byte])
    value = bytes(changed)

    try:
        read_offset_value(value)
        is_readable = True
    except KafkaError:
        is_readable = False

    assert is_offset_value(value) == is_readable
