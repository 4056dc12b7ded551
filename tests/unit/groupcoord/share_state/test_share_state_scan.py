"""A log that differs from what the coordinator wrote is read as far as possible."""

from dataclasses import replace

import pytest

from ottla.groupcoord.share_state.share_coordinator import ShareCoordinator
from ottla.groupcoord.share_state.share_state_commands import StateCommand
from ottla.groupcoord.share_state.share_state_effects import Append
from ottla.groupcoord.share_state.share_state_records import (
    SnapshotRecord,
    UpdateRecord,
    decode_record,
    encode_record,
)
from ottla.groupcoord.share_state.share_state_scan import ShareStateScan
from ottla.groupcoord.share_state.share_state_words import InitializeState
from ottla.logstore.compression import Compression
from ottla.logstore.record import Record, build_batch
from tests.unit.groupcoord.share_state.share_state_world import KEY, NOW_MS, batch, key_of, new_shard
from tests.unit.groupcoord.share_state.test_share_state_records import SNAPSHOT, UPDATE

ROWS = [
    encode_record(SnapshotRecord(KEY, SNAPSHOT)),
    encode_record(UpdateRecord(KEY, UPDATE._replace(batches=(batch(20, 29),)))),
    encode_record(SnapshotRecord(key_of("h"), SNAPSHOT)),
]


def scanned(*contents: bytes) -> ShareStateScan:
    scan = ShareStateScan(new_shard())
    for content in contents:
        scan.feed(content)
    return scan


def test_a_record_that_cannot_be_read_is_left_out() -> None:
    rows = [(ROWS[0][0], ROWS[0][1], 0, ()), (b"\x00\x00\x7f", b"", 0, ()), (*ROWS[2], 0, ())]

    shard, unreadable = scanned(bytes(build_batch(rows, base_offset=10))).finish()

    assert list(shard.states) == [KEY, key_of("h")]
    assert unreadable.count == 1 and "a key is not" in unreadable.first[0]
    assert shard.next_offset == 13 and shard.redundant.start_offset == 10


def test_updates_without_their_snapshot_are_a_state() -> None:
    shard, _ = scanned(bytes(build_batch([(*ROWS[1], 0, ())]))).finish()

    assert shard.states[KEY].current.batches == (batch(20, 29),)
    assert shard.redundant.start_offset is None


def test_records_of_a_compacted_batch_count_from_its_base_offset() -> None:
    kept = [
        Record(offset=offset, timestamp=0, key=key, value=value)
        for offset, (key, value) in ((17, ROWS[1]), (18, ROWS[2]))
    ]

    shard, _ = scanned(bytes(build_batch(kept, base_offset=15, last_offset=19))).finish()

    assert shard.redundant.start_offset == 15 and shard.next_offset == 20


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_record_before_a_large_one_is_replayed_once(codec: Compression) -> None:
    """A value of more than 8,191 bytes has a length of three bytes, so its batch is read another way."""
    batches = tuple(batch(2 * number, 2 * number) for number in range(500))
    large = encode_record(SnapshotRecord(key_of("h"), replace(SNAPSHOT, start_offset=0, batches=batches)))
    rows = [(*row, 0, ()) for row in (ROWS[1], ROWS[1], large)]

    shard, unreadable = scanned(bytes(build_batch(rows, base_offset=10, compression=codec))).finish()

    assert shard.states[KEY].updates == 1 and not unreadable.count
    assert shard.redundant.start_offset == 12 and shard.next_offset == 13


def test_a_long_scan_pauses() -> None:
    pauses: list[int] = []
    scan = ShareStateScan(new_shard(), lambda: pauses.append(1))

    scan.feed(bytes(build_batch([(*ROWS[1], 0, ())] * 500)))

    assert len(pauses) >= 9


def test_after_the_last_snapshot_epoch_comes_the_first() -> None:
    """No coordinator writes that many snapshots, but a log may have this epoch."""
    last = replace(SNAPSHOT, snapshot_epoch=2**31 - 1)
    shard, _ = scanned(bytes(build_batch([(*encode_record(SnapshotRecord(KEY, last)), 0, ())]))).finish()

    [append, _] = ShareCoordinator(shard).handle(
        StateCommand(token=1, request=InitializeState(KEY, 9, 0)), NOW_MS
    )

    assert isinstance(append, Append)
    [record] = append.records
    assert decode_record(*encode_record(record)) == record
    assert isinstance(record, SnapshotRecord) and record.state and record.state.snapshot_epoch == 0
