"""Random logs as nodes return them to consumers, and the records that a reader sees."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from ottla.logstore.record import ControlType, EndTransactionMarker, Record, build_batch, build_marker
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.consumer import READ_COMMITTED
from ottla.node.client.newest_records import Span
from ottla.node.wire.messages.fetch import AbortedTransaction, PartitionData

VALUE = b"a record"


class Step(NamedTuple):
    """A step: records without or in a transaction, the end of one, or offsets emptied by compaction."""

    kind: str
    producer_id: int
    count: int


STEPS = st.builds(
    Step,
    st.sampled_from(["plain", "open", "open", "commit", "abort", "hole", "thinned"]),
    st.integers(1, 3),
    st.integers(1, 9),
)


class _Batch(NamedTuple):
    first: int
    last: int
    content: bytearray


class ModelLog:
    """The log of a partition. `seen` returns the offsets of all its records, or of the committed ones."""

    def __init__(self, steps: Sequence[Step], deleted: int) -> None:
        self.end = 0
        self.batches: list[_Batch] = []
        self._plain: list[int] = []
        self._of_open: dict[int, list[int]] = {}
        self._aborted: list[tuple[AbortedTransaction, int]] = []  # and the offset of its marker
        self._aborted_offsets: set[int] = set()
        for step in steps:
            self._take(step)
        self.first = min(deleted, self.stable)

    def _take(self, step: Step) -> None:
        match step.kind:
            case "hole":
                self.end += step.count
            case "plain":
                self._plain += self._add(step.count)
            case "thinned":
                # A batch in which compaction left every second record.
                self._plain += self._add(2 * step.count, every=2)
            case "open":
                of_open = self._of_open.setdefault(step.producer_id, [])
                of_open += self._add(step.count, producer_id=step.producer_id)
            case _:
                self._end_transaction(step)

    def _add(self, count: int, *, every: int = 1, producer_id: int = -1) -> list[int]:
        offsets = list(range(self.end, self.end + count, every))
        content = build_batch(
            [Record(offset, 1000, None, VALUE) for offset in offsets],
            base_offset=self.end,
            last_offset=self.end + count - 1,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            is_transactional=producer_id >= 0,
        )
        self._append(count, content)
        return offsets

    def _end_transaction(self, step: Step) -> None:
        offsets = self._of_open.pop(step.producer_id, None)
        if offsets is None:
            return
        if step.kind == "abort":
            begun = AbortedTransaction(producer_id=step.producer_id, first_offset=offsets[0])
            self._aborted.append((begun, self.end))
            self._aborted_offsets |= {*offsets}
        self._plain += offsets
        kind = ControlType.ABORT if step.kind == "abort" else ControlType.COMMIT
        marker = build_marker(
            EndTransactionMarker(kind, 0),
            producer_id=step.producer_id,
            producer_epoch=0,
            timestamp_ms=1000,
            base_offset=self.end,
        )
        self._append(1, marker)

    def _append(self, count: int, content: bytearray) -> None:
        self.batches.append(_Batch(self.end, self.end + count - 1, content))
        self.end += count

    @property
    def stable(self) -> int:
        """The last stable offset: the first record of an open transaction."""
        return min((offsets[0] for offsets in self._of_open.values()), default=self.end)

    def span(self, *, read_committed: bool) -> Span:
        return Span(self.first, self.stable if read_committed else self.end)

    def seen(self, *, read_committed: bool) -> list[int]:
        if read_committed:
            offsets = [one for one in self._plain if one not in self._aborted_offsets]
        else:
            offsets = [
                *self._plain,
                *(one for open_offsets in self._of_open.values() for one in open_offsets),
            ]
        first, end = self.span(read_committed=read_committed)
        return sorted(one for one in offsets if first <= one < end)

    def read(self, index: int, position: int, isolation: int, room: int, *, has_any: bool) -> PartitionData:
        """Return the response to a fetch: the whole batches that fit, and the first one of any size."""
        upper = self.stable if isolation == READ_COMMITTED else self.end
        taken, size = [], 0
        for batch in self.batches:
            if batch.last < position or batch.first >= upper:
                continue
            if size + len(batch.content) > room and (taken or has_any):
                break
            taken.append(batch)
            size += len(batch.content)
        last = taken[-1].last if taken else position
        aborted = [one for one, marker in self._aborted if marker >= position and one.first_offset <= last]
        return PartitionData(
            partition_index=index,
            high_watermark=self.end,
            last_stable_offset=self.stable if isolation == READ_COMMITTED else -1,
            aborted_transactions=aborted if isolation == READ_COMMITTED else None,
            records=b"".join(bytes(one.content) for one in taken),
        )


def read_all(
    logs: Mapping[TopicPartition, ModelLog],
    positions: Mapping[TopicPartition, int],
    *,
    isolation: int,
    max_bytes: int,
    partition_max_bytes: int,
) -> dict[TopicPartition, PartitionData]:
    """Return the response of one leader."""
    found: dict[TopicPartition, PartitionData] = {}
    has_any = False
    for partition, position in positions.items():
        data = logs[partition].read(
            partition.partition, position, isolation, min(max_bytes, partition_max_bytes), has_any=has_any
        )
        assert isinstance(data.records, bytes)
        has_any = has_any or bool(data.records)
        max_bytes = max(0, max_bytes - len(data.records))
        found[partition] = data
    return found
