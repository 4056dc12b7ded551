"""Records with the places of copied rows: for each partition and batch of a stream its runs.

The task that copies rows from one cluster to another writes them in the transaction of the rows, into a
compacted topic: so they cover every row that readers see, and none that was aborted. A key has a slot that is
reused, so the topic does not grow for ever. Batches are kept ever more sparsely with age: the last 64 of all,
of every second one, of every fourth and so on.

    {"topic":"a.orders","partition":0,"slot":130}   {"runs":[[5,100,3],[9,103,2]]}
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.batch_sender import UNKNOWN_OFFSET, Placed
from ottla.pipeline.columns.offset_runs import OffsetRun, Steps, find_steps, make_runs
from ottla.pipeline.columns.row_columns import RowColumns
from ottla.pipeline.columns.varints import Int64s

BATCHES_PER_LEVEL: Final = 64
LAST_LEVEL: Final = 63
RUNS_MAX: Final = 1_000  # in one record, some 30 kB
MAX_OFFSET: Final = 2**63 - 1
# Records larger than any written here are not read.
MAX_RECORD_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """One record: the places of one batch's rows in a partition of the target."""

    partition: TopicPartition
    slot: int
    runs: tuple[OffsetRun, ...]


def slot_of(batch_id: int) -> int:
    """Return the slot of a batch: one of the 64 of its level, which is how often two divides its number."""
    level = LAST_LEVEL if batch_id == 0 else (batch_id & -batch_id).bit_length() - 1
    return level * BATCHES_PER_LEVEL + (batch_id >> (level + 1)) % BATCHES_PER_LEVEL


def encode_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Return the key and the value of its record."""
    key = {"topic": sync.partition.topic, "partition": sync.partition.partition, "slot": sync.slot}
    value = {"runs": [[*run] for run in sync.runs]}
    return _compact(key), _compact(value)


def decode_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    """Read a record from its key and value; ValueError with a sentence if this module did not write it."""
    if key is None or value is None or max(len(key), len(value)) > MAX_RECORD_BYTES:
        raise ValueError("the key or the value is missing or too long")
    try:
        name, content = json.loads(key), json.loads(value)
        topic, partition, slot = name["topic"], name["partition"], name["slot"]
        runs = [OffsetRun(*run) for run in content["runs"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("the key or the value is not the expected JSON") from None
    if not isinstance(topic, str) or not all(_is_offset(one) for one in (partition, slot)):
        raise ValueError("the key names no partition")
    if not runs or not all(_is_offset(number) for run in runs for number in run):
        raise ValueError("a run has no offsets")
    before = OffsetRun(0, 0, 0)
    for run in runs:
        is_behind = run.source >= before.source_end and run.target >= before.target_end
        if run.rows < 1 or not is_behind or max(run.source_end, run.target_end) > MAX_OFFSET:
            raise ValueError("the runs are not in order")
        before = run
    return OffsetSync(partition=TopicPartition(topic, partition), slot=slot, runs=tuple(runs))


class OffsetNotes:
    """The notes of a task about the rows that it sends, until it knows their places."""

    def __init__(self, *, slot: int, lag_max: int) -> None:
        self._slot = slot
        self._lag_max = lag_max
        self._sent: list[tuple[TopicPartition, Steps]] = []

    def note(self, partition: TopicPartition, offsets: Int64s) -> None:
        """Note a record batch that is sent, with the offsets of its rows in the source."""
        self._sent.append((partition, find_steps(offsets)))

    def rows(self, placed: Sequence[Placed]) -> RowColumns | None:
        """Return the records for all noted batches with known places, in the order of sending, or None."""
        assert [one.partition for one in placed] == [partition for partition, _ in self._sent], (
            "other batches"
        )
        by_partition: dict[TopicPartition, list[tuple[Steps, int]]] = {}
        for one, (partition, steps) in zip(placed, self._sent, strict=True):
            if one.base_offset != UNKNOWN_OFFSET:
                by_partition.setdefault(partition, []).append((steps, one.base_offset))
        self._sent.clear()
        if not by_partition:
            return None
        records = [
            encode_sync(
                OffsetSync(
                    partition=partition,
                    slot=self._slot,
                    runs=tuple(make_runs(batches, lag_max=self._lag_max, runs_max=RUNS_MAX)),
                )
            )
            for partition, batches in by_partition.items()
        ]
        return RowColumns(
            keys=pa.array([key for key, _ in records], pa.binary()),
            values=pa.array([value for _, value in records], pa.binary()),
            headers=None,
            timestamps_ms=None,
        )


def _compact(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _is_offset(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MAX_OFFSET
