"""The scan of a log equals decoding it record by record, whatever its batches look like."""

from dataclasses import replace
from random import Random

import pytest

from ottla.groupcoord.log_scan import MAX_UNREADABLE, PAUSE_RECORDS
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_records import encode_key, encode_value
from ottla.groupcoord.transactions.transaction_scan import TransactionScan, load_shard
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.compression import Compression
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, build_marker
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.unit.groupcoord.transactions.states import IN_LOG, S, at

Row = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
MANY = frozenset(TopicPartition(f"topic-{each}", each) for each in range(2_000))
STATES = [
    *(at(state, id=f"{state.value}-{level}") for state in IN_LOG for level in (0, 1)),
    replace(at(S.ONGOING, id="many"), partitions=MANY),  # lengths of three bytes
    at(S.EMPTY, id="x" * 20_000),
    at(S.ONGOING, id="Zürich"),
]


def row(t: object, *, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Row:
    return encode_key(t.transactional_id), encode_value(t, 1), 1_000, headers  # type: ignore[attr-defined]


def scanned(*batches: bytes) -> dict[str, object]:
    scan = TransactionScan()
    content = b"".join(batches)
    assert scan.feed(content) >= 0
    left = scan.finish()
    assert left.unreadable.count == 0
    return dict(left.transactions)


def batch(rows: list[Row], **fields: object) -> bytes:
    return bytes(build_batch(rows, **fields))  # type: ignore[arg-type]


EXPECTED = {t.transactional_id: replace(t, last_producer_epoch=-1) for t in STATES}


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("size", [1, 4, len(STATES)])
def test_batches_of_all_sizes_are_scanned(size: int, compression: Compression) -> None:
    rows = [row(t) for t in STATES]

    batches = [
        batch(rows[start : start + size], base_offset=start, compression=compression)
        for start in range(0, len(rows), size)
    ]

    assert scanned(*batches) == EXPECTED


def test_records_with_headers_count_and_records_without_a_key_are_skipped() -> None:
    rows = [row(STATES[0]), row(STATES[1], headers=(("h", b"1"),)), (None, b"x", 0, ()), row(STATES[2])]

    assert scanned(batch(rows)) == {t.transactional_id: t for t in STATES[:3]}


def test_the_last_record_counts_and_tombstones_remove() -> None:
    old, new = at(S.ONGOING, 5), at(S.COMPLETE_COMMIT, 6)
    gone: Row = (encode_key("t"), None, 0, ())

    assert scanned(batch([row(old)]), batch([row(new)], base_offset=1)) == {"t": new}
    assert scanned(batch([row(old), gone])) == {}
    assert scanned(batch([gone, row(old)], compression=Compression.GZIP)) == {"t": old}
    assert scanned(batch([row(old), gone], compression=Compression.GZIP)) == {}


def test_compaction_changes_nothing() -> None:
    """The last record of each id counts, wherever the cleaner was, and in whatever order ids come."""
    random = Random(6)
    states = [at(random.choice(IN_LOG), each, id=f"t{random.randrange(6)}") for each in range(60)]
    tombstone: Row = (encode_key("t0"), None, 0, ())
    rows = [row(t) for t in states] + [tombstone]
    whole = scanned(batch(rows))
    assert len(whole) == 5

    for cleaned_to in range(len(rows) + 1):
        last = {key: value for key, value, _, _ in rows[:cleaned_to]}
        left = [(key, value, 0, ()) for key, value in last.items()]
        random.shuffle(left)

        assert scanned(batch(rows[:1]), *(batch([each]) for each in (*left, *rows[cleaned_to:]))) == whole


def test_batches_that_pieces_cut_are_scanned_whole() -> None:
    batches = [batch([row(t)], base_offset=offset) for offset, t in enumerate(STATES)]
    content = b"".join(batches)
    scan = TransactionScan()

    assert scan.feed(b"") == scan.feed(content[:40]) == scan.feed(content[: len(batches[0]) - 1]) == -1
    assert scan.feed(content[: len(batches[0]) + 30]) == 1
    assert scan.feed(content[len(batches[0]) :]) == len(STATES)
    assert scan.finish().transactions == EXPECTED


def test_unknown_records_are_skipped() -> None:
    marker = build_marker(
        EndTransactionMarker(ControlType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp_ms=0
    )
    other_kind: Row = (b"\x00\x07other", b"what it says", 0, ())

    assert scanned(bytes(marker), batch([other_kind, row(STATES[0])])) == {
        STATES[0].transactional_id: STATES[0]
    }


def test_unreadable_records_are_left_out_and_reported() -> None:
    rows: list[Row] = [
        (encode_key(f"t{each}"), b"\x00\x01nonsense", 0, ()) for each in range(MAX_UNREADABLE + 5)
    ]
    rows += [(encode_key("later"), b"\x00\x02of a later release", 0, ()), (b"\x00\x00", b"", 0, ())]
    scan = TransactionScan()
    scan.feed(batch([*rows, row(STATES[0])]))

    left = scan.finish()

    assert list(left.transactions) == [STATES[0].transactional_id]
    assert left.unreadable.count == MAX_UNREADABLE + 7 and len(left.unreadable.first) == MAX_UNREADABLE


@pytest.mark.parametrize("position", [16, 61, 62, 66])
def test_bytes_that_are_no_log_raise_an_error(position: int) -> None:
    content = bytearray(batch([row(STATES[0])]))
    content[position] ^= 0x7F

    with pytest.raises(KafkaError) as refused:
        TransactionScan().feed(bytes(content))

    assert refused.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_a_long_scan_pauses() -> None:
    pauses: list[int] = []
    scan = TransactionScan(lambda: pauses.append(1))
    rows = [row(at(S.EMPTY, id=f"t{each}")) for each in range(PAUSE_RECORDS)]

    scan.feed(batch(rows) + batch(rows, base_offset=PAUSE_RECORDS))
    assert len(pauses) == 2
    left = scan.finish()
    assert len(pauses) == 7
    load_shard(
        left,
        TransactionShard(TransactionConfig(), level=2, coordinator_epoch=0),
        pause=lambda: pauses.append(1),
    )

    assert len(pauses) == 8


def test_a_shard_is_loaded_from_the_last_states() -> None:
    scan = TransactionScan()
    scan.feed(batch([row(t) for t in STATES]))

    shard = load_shard(scan.finish(), TransactionShard(TransactionConfig(), level=2, coordinator_epoch=7))

    assert shard.transactions == EXPECTED
    shard.check_invariants()
