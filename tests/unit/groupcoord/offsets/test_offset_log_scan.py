"""Scanning a shard's log: records that count, that are skipped, that are rejected."""

import struct

import pytest

from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.group_records import (
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitValue,
    OffsetRecord,
)
from ottla.groupcoord.log_scan import MAX_UNREADABLE, PAUSE_RECORDS
from ottla.groupcoord.offsets.offset_log_scan import OffsetLogScan
from ottla.groupcoord.offsets.pending_offsets import OffsetKey
from ottla.groupcoord.record_codec import GroupRecord, encode_key, encode_value
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.shard_load import load_shard
from ottla.logstore.compression import Compression, compress
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, build_marker, seal_batch
from ottla.logstore.record_batch import CONTROL_BIT, HEADER_SIZE, TRANSACTIONAL_BIT, BatchHeader
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.traced_memory import peak_bytes

KEY = OffsetKey("g", "t", 0)
MIB = 1024 * 1024


def offset(value: int | None, *, group_id: str = "g", partition: int = 0) -> OffsetRecord:
    content = None if value is None else OffsetCommitValue(offset=value, commit_timestamp=1)
    return OffsetRecord(group_id, "t", partition, content)


def group(value: GroupMetadataValue | None) -> GroupMetadataRecord:
    return GroupMetadataRecord("g", value)


def batch(
    *records: GroupRecord,
    at: int = 0,
    compression: Compression = Compression.NONE,
    producer: int | None = None,
) -> bytes:
    rows = [(encode_key(each), encode_value(each), 0, ()) for each in records]
    return raw_batch(*rows, at=at, compression=compression, producer=producer)


def raw_batch(
    *rows: tuple[bytes | None, bytes | None, int, tuple[()]],
    at: int = 0,
    compression: Compression = Compression.NONE,
    producer: int | None = None,
) -> bytes:
    return bytes(
        build_batch(
            rows,
            base_offset=at,
            last_offset=at + max(len(rows), 1) - 1,
            compression=compression,
            producer_id=-1 if producer is None else producer,
            producer_epoch=0,
            is_transactional=producer is not None,
        )
    )


def marker(type_: ControlType, *, producer: int, at: int = 0) -> bytes:
    end = EndTransactionMarker(type_, 3)
    return bytes(build_marker(end, producer_id=producer, producer_epoch=0, timestamp_ms=0, base_offset=at))


def body_of(batch: bytes) -> bytes:
    return batch[HEADER_SIZE:]


def load(*batches: bytes) -> GroupShard:
    scan = OffsetLogScan()
    scan.feed(b"".join(batches))
    shard = load_shard(scan.finish(), GroupShard(CoordinatorConfig(), lambda: "uuid"))
    shard.check_invariants()
    return shard


def committed(shard: GroupShard) -> int | None:
    value = shard.offsets.get(*KEY)
    return None if value is None else value.offset


COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
LOGS: dict[str, tuple[list[bytes], int | None]] = {
    "the last commit counts": ([batch(offset(1)), batch(offset(2))], 2),
    "a tombstone removes": ([batch(offset(1), offset(None))], None),
    "a commit after a tombstone counts": ([batch(offset(1)), batch(offset(None)), batch(offset(3))], 3),
    "a key of Kafka 0.8 is the same key": (
        [batch(offset(1)), raw_batch((b"\0\0" + encode_key(offset(2))[2:], encode_value(offset(2)), 0, ()))],
        2,
    ),
    "an open transaction does not count": ([batch(offset(1)), batch(offset(2), producer=7)], 1),
    "a committed transaction counts": ([batch(offset(2), producer=7), marker(COMMIT, producer=7)], 2),
    "an aborted transaction does not": ([batch(offset(2), producer=7), marker(ABORT, producer=7)], None),
    "another producer's marker ends nothing": (
        [batch(offset(2), producer=7), marker(COMMIT, producer=8)],
        None,
    ),
    "a plain commit overrides a transaction that wrote before it": (
        [batch(offset(2), producer=7), batch(offset(3)), marker(COMMIT, producer=7)],
        3,
    ),
    "of two transactions the later write counts, whichever ends last": (
        [
            batch(offset(2), producer=7),
            batch(offset(3), producer=8),
            marker(COMMIT, producer=8),
            marker(COMMIT, producer=7),
        ],
        3,
    ),
    "a tombstone removes what is pending, too": (
        [batch(offset(2), producer=7), batch(offset(None)), marker(COMMIT, producer=7)],
        None,
    ),
    "a transaction may write again after a plain commit": (
        [
            batch(offset(2), producer=7),
            batch(offset(3)),
            batch(offset(4), producer=7),
            marker(COMMIT, producer=7),
        ],
        4,
    ),
    "an empty batch that compaction left": ([batch(offset(1)), batch(at=5)], 1),
    "offsets with gaps": ([batch(offset(1)), batch(offset(2), at=1_000)], 2),
    "a record without a key": ([batch(offset(1)), raw_batch((None, b"x", 0, ()))], 1),
    "kinds of newer Kafkas": (
        [batch(offset(1)), *(raw_batch((n.to_bytes(2) + b"\0\1g", b"\0\0", 0, ())) for n in (9, 17, 99))],
        1,
    ),
    "an unreadable value hides the offset before it": (
        [batch(offset(1)), raw_batch((encode_key(offset(1)), b"\0\4", 0, ()))],
        None,
    ),
}


@pytest.mark.parametrize(("batches", "expected"), LOGS.values(), ids=LOGS)
def test_a_load_keeps_the_records_that_count(batches: list[bytes], expected: int | None) -> None:
    assert committed(load(*batches)) == expected


@pytest.mark.parametrize("compression", list(Compression))
def test_batches_of_every_compression_are_loaded(compression: Compression) -> None:
    shard = load(batch(offset(1), offset(2), compression=compression))

    assert committed(shard) == 2


def test_half_a_batch_at_the_end_is_left_for_the_next_piece() -> None:
    first, second = batch(offset(1), offset(2)), batch(offset(3), at=2)
    scan = OffsetLogScan()

    assert scan.feed(first + second[:-1]) == 2
    assert scan.feed(second) == 3
    assert scan.feed(b"") == scan.feed(second[:60]) == -1


@pytest.mark.parametrize(
    ("position", "content"),
    [(8, struct.pack(">i", 48)), (8, struct.pack(">i", -1)), (16, b"\1"), (23, struct.pack(">i", -2))],
    ids=["a length below a header's", "a negative length", "an old format", "a negative count of offsets"],
)
def test_bytes_that_are_no_log_are_rejected(position: int, content: bytes) -> None:
    changed = bytearray(batch(offset(1)))
    changed[position : position + len(content)] = content

    with pytest.raises(KafkaError) as refused:
        OffsetLogScan().feed(bytes(changed))

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_batch_that_counts_more_or_fewer_records_than_it_has_is_rejected(count: int) -> None:
    changed = bytearray(batch(offset(1)))
    struct.pack_into(">i", changed, 57, count)

    with pytest.raises(KafkaError) as refused:
        OffsetLogScan().feed(bytes(changed))

    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\x00",
        b"\xff\xff",
        b"\x00\x01",
        b"\x00\x01\x00\x01g",
        b"\x00\x01\xff\xff\x00\x01t\x00\x00\x00\x00",
        b"\x00\x01\x7f\xff\x00\x01t\x00\x00\x00\x00",
        b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x00",
        encode_key(offset(1)) + b"!",
        b"\x00\x02\x7f\xffg",
    ],
)
def test_malformed_keys_are_left_out_and_counted(key: bytes) -> None:
    scan = OffsetLogScan()
    scan.feed(raw_batch((key, encode_value(offset(1)), 0, ())))
    scanned = scan.finish()

    shard = load_shard(scanned, GroupShard(CoordinatorConfig(), lambda: "uuid"))

    assert scanned.unreadable.count == 1 and not shard.groups and not shard.offsets.count


def test_a_log_full_of_unreadable_records_does_not_fill_the_memory() -> None:
    scan = OffsetLogScan()
    scan.feed(raw_batch(*[(b"\0", None, 0, ())] * 1_000))

    scanned = scan.finish()

    assert scanned.unreadable.count == 1_000 and len(scanned.unreadable.first) == MAX_UNREADABLE


def test_a_group_exists_where_there_are_offsets_in_whatever_order_records_came() -> None:
    empty = GroupMetadataValue(protocol_type="consumer", generation=3)

    with_record = load(batch(offset(1)), batch(group(empty)))
    simple = load(batch(group(empty)), batch(offset(1)), batch(group(None)))
    pending = load(batch(offset(1, group_id="p"), producer=7))
    gone = load(batch(offset(1), group(empty)), batch(offset(None), group(None)))

    assert with_record.groups["g"].generation_id == 3
    assert simple.groups["g"].generation_id == 0 and committed(simple) == 1
    assert list(pending.groups) == ["p"] and pending.pending.has(OffsetKey("p", "t", 0))
    assert not gone.groups


def test_a_scan_pauses_regularly_and_can_be_ended_there() -> None:
    calls = 0

    class Ended(Exception):
        pass

    def pause() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Ended

    scan = OffsetLogScan(pause)
    piece = batch(*(offset(1, partition=each) for each in range(PAUSE_RECORDS // 2)))

    scan.feed(piece * 4)
    assert calls == 2
    with pytest.raises(Ended):
        scan.feed(piece * 2)


def bomb(row: bytes, count: int, attributes: int = 0) -> bytes:
    """Return a compressed batch of some kB with `count` copies of a record."""
    attributes |= Compression.ZSTD
    header = BatchHeader(0, 0, 0, 2, 0, attributes, count - 1, 0, 0, 7, 0, -1, count)
    return bytes(seal_batch(header, compress(Compression.ZSTD, row * count)))


USUAL = body_of(batch(offset(1)))
UNUSUAL = body_of(bytes(build_batch([(encode_key(offset(1)), encode_value(offset(1)), 0, [("h", b"")])])))
MARKER = body_of(marker(ControlType.COMMIT, producer=7))


@pytest.mark.parametrize(
    ("row", "attributes", "size_bytes"),
    [
        (USUAL, 0, MIB),
        (UNUSUAL, 0, 2 * MIB),
        (MARKER, CONTROL_BIT | TRANSACTIONAL_BIT, MIB),
    ],
    ids=["usual records", "records with headers", "markers"],
)
def test_a_small_batch_that_decompresses_to_many_bytes_is_read_a_piece_at_a_time(
    row: bytes, attributes: int, size_bytes: int
) -> None:
    count = size_bytes // len(row)
    content = bomb(row, count, attributes)
    pauses: list[int] = []

    def read() -> None:
        pauses.clear()
        OffsetLogScan(lambda: pauses.append(1)).feed(content)

    assert len(content) < 8 * 1024
    assert peak_bytes(read) < size_bytes
    assert len(pauses) >= count // PAUSE_RECORDS


@pytest.mark.parametrize("compression", [one for one in Compression if one is not Compression.NONE])
def test_records_over_the_edge_of_a_piece_are_read_whole(compression: Compression) -> None:
    numbers = range(9_000)
    whole = batch(*(offset(each, partition=each) for each in numbers), compression=compression)

    shard = load(whole)

    assert [shard.offsets.get("g", "t", each).offset for each in numbers] == [*numbers]  # type: ignore[union-attr]
