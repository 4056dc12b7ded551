"""Records with the places of copied rows: noted, written, and read again."""

import json

import numpy as np
import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.batch_sender import UNKNOWN_OFFSET, Placed
from ottla.pipeline.client.offset_syncs import OffsetNotes, OffsetSync, decode_sync, encode_sync, slot_of
from ottla.pipeline.columns.offset_runs import OffsetRun

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def test_noted_batches_become_records_when_they_are_placed() -> None:
    notes = OffsetNotes(slot=3, lag_max=0)
    notes.note(ONE, np.arange(5, 8))
    notes.note(OTHER, np.array([0, 2]))
    notes.note(ONE, np.arange(8, 10))

    rows = notes.rows([Placed(ONE, 100, 3), Placed(OTHER, 7, 2), Placed(ONE, 103, 2)])

    assert rows is not None
    assert rows.keys is not None
    syncs = [decode_sync(*pair) for pair in zip(rows.keys.to_pylist(), rows.values.to_pylist(), strict=True)]
    assert syncs == [
        OffsetSync(partition=ONE, slot=3, runs=(OffsetRun(5, 100, 5),)),
        OffsetSync(partition=OTHER, slot=3, runs=(OffsetRun(0, 7, 1), OffsetRun(2, 8, 1))),
    ]


def test_a_batch_with_an_unknown_place_is_left_out() -> None:
    notes = OffsetNotes(slot=0, lag_max=0)
    notes.note(ONE, np.arange(3))
    notes.note(ONE, np.arange(3, 5))

    rows = notes.rows([Placed(ONE, UNKNOWN_OFFSET, 3), Placed(ONE, 50, 2)])

    assert rows is not None
    assert json.loads(rows.values[0].as_py()) == {"runs": [[3, 50, 2]]}
    notes.note(ONE, np.arange(1))
    assert notes.rows([Placed(ONE, UNKNOWN_OFFSET, 1)]) is None
    assert notes.rows([]) is None


def test_slots_that_are_rarer_are_reused_later() -> None:
    slots = [slot_of(batch_id) for batch_id in range(1, 100_001)]

    last = {slot: batch_id for batch_id, slot in enumerate(slots, 1)}
    kept = sorted(last.values())
    assert len(kept) < 64 * 17
    for batch_id in range(1, 100_001, 997):  # the nearest one kept before it is not far, measured by its age
        before = max((one for one in kept if one <= batch_id), default=0)
        assert batch_id - before <= max(2, (100_000 - batch_id) // 16)
    assert slot_of(0) not in last
    assert max(slot_of(batch_id) for batch_id in (0, 2**63 - 1, 2**62)) < 2**31


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"{}", None),
        (b"\xff", b"{}"),
        (b"[]", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b'{"topic":1,"partition":0,"slot":0}', b'{"runs":[[0,0,1]]}'),
        (b'{"topic":"t","partition":-1,"slot":0}', b'{"runs":[[0,0,1]]}'),
        (b'{"topic":"t","partition":true,"slot":0}', b'{"runs":[[0,0,1]]}'),
        (b'{"topic":"t","partition":0,"slot":0}', b'{"runs":[]}'),
        (b'{"topic":"t","partition":0,"slot":0}', b'{"runs":[[0,0]]}'),
        (b'{"topic":"t","partition":0,"slot":0}', b'{"runs":[[0,0,0]]}'),
        (b'{"topic":"t","partition":0,"slot":0}', b'{"runs":[[0,0,1e3]]}'),
        (b'{"topic":"t","partition":0,"slot":0}', b'{"runs":[[0,0,2],[1,5,1]]}'),
        (b'{"topic":"t","partition":0,"slot":0}', b'{"runs":[[9223372036854775807,0,1]]}'),
        (b'{"topic":"t","partition":0,"slot":0}', b'{"runs":[[0,0,1]]}' + b" " * 2_000_000),
    ],
)
def test_foreign_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ValueError):
        decode_sync(key, value)


def test_a_record_is_read_as_it_was_written() -> None:
    sync = OffsetSync(partition=ONE, slot=9, runs=(OffsetRun(1, 2, 3), OffsetRun(9, 5, 1)))

    assert decode_sync(*encode_sync(sync)) == sync
