"""Records that this member of a share group has acquired: a cursor over them, and their acknowledgements.

A ShareFetch response has whole batches, and the ranges of their offsets that this member acquired. Offsets in
these ranges without a record (compaction, markers) are acknowledged as gaps. A batch that cannot be read is
rejected, so that it is not delivered to another member, which could not read it either.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.logstore.compression import MAX_ZSTD_WINDOW_BYTES
from ottla.logstore.record import Record
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.record_cursor import RecordCursor
from ottla.node.wire.acknowledge_type import AcknowledgeType
from ottla.node.wire.messages.share_fetch import AcquiredRecords

MAX_OFFSET: Final = 2**63 - 1


class SharedRecord(NamedTuple):
    """A record that this member has acquired, and the number of its deliveries, this one included."""

    partition: TopicPartition
    record: Record
    delivery_count: int


class AcknowledgedRange(NamedTuple):
    """Offsets of one partition that are acknowledged with the same type."""

    first: int
    last: int
    kind: AcknowledgeType


class Unreadable(NamedTuple):
    """Acquired offsets of a batch that cannot be read, and the error."""

    partition: TopicPartition
    first: int
    last: int
    error: KafkaError


def joined(ranges: Iterable[AcknowledgedRange]) -> list[AcknowledgedRange]:
    """Return the ranges by offset; adjacent ranges of the same type are merged."""
    found: list[AcknowledgedRange] = []
    for one in sorted(ranges):
        last = found[-1] if found else None
        if last is not None and last.kind is one.kind and last.last + 1 == one.first:
            found[-1] = AcknowledgedRange(last.first, one.last, one.kind)
        else:
            found.append(one)
    return found


class AcquiredCursor:
    """A cursor over the acquired records of one partition in one response.

    Iterating yields records, and None after some work that found none, so that the caller can pause.
    `settled` has the ranges that are acknowledged without being returned, `unreadable` those of them that
    could not be read, and `rest` the ranges that are neither returned nor settled yet. KafkaError if the
    ranges of the response overlap or are not in order.
    """

    def __init__(
        self,
        partition: TopicPartition,
        view: memoryview,
        acquired: Sequence[AcquiredRecords],
        max_window_bytes: int = MAX_ZSTD_WINDOW_BYTES,
    ) -> None:
        self.settled: list[AcknowledgedRange] = []
        self.unreadable: list[Unreadable] = []
        self._partition = partition
        self._max_window_bytes = max_window_bytes
        before = -1
        for one in acquired:
            if not before < one.first_offset <= one.last_offset < MAX_OFFSET:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"the server returned offsets {one.first_offset} to {one.last_offset} of {partition} "
                    f"after {before}",
                )
            before = one.last_offset
        self._ranges = [(one.first_offset, one.last_offset, one.delivery_count) for one in reversed(acquired)]
        self._found = self._open(view)

    def __iter__(self) -> Iterator[SharedRecord | None]:
        return self

    def __next__(self) -> SharedRecord | None:
        return next(self._found)

    @property
    def rest(self) -> list[tuple[int, int]]:
        """Return the acquired ranges that are neither returned nor settled yet."""
        return [(first, last) for first, last, _ in reversed(self._ranges)]

    def _open(self, view: memoryview) -> Iterator[SharedRecord | None]:
        end = 0
        try:
            for start, header in iterate_headers(view):
                end = start + header.size_bytes
                if not self._ranges:
                    return
                if header.last_offset < self._ranges[-1][0]:
                    continue
                try:
                    yield from self._open_batch(view[start:end])
                except KafkaError as error:
                    self._settle_unreadable(header.last_offset, AcknowledgeType.REJECT, error)
                self._settle(header.last_offset, AcknowledgeType.GAP)
                yield None
        except KafkaError as error:  # the start of the next batch is unknown from here on
            self._settle_unreadable(MAX_OFFSET, AcknowledgeType.RELEASE, error)
        is_torn = end < len(view)
        self._settle(MAX_OFFSET, AcknowledgeType.RELEASE if is_torn else AcknowledgeType.GAP)

    def _open_batch(self, batch: memoryview) -> Iterator[SharedRecord | None]:
        for record in RecordCursor(batch, (), self._ranges[-1][0], self._max_window_bytes):
            if record is None:
                yield None
                continue
            self._settle(record.offset - 1, AcknowledgeType.GAP)
            if not self._ranges:
                return
            first, last, count = self._ranges[-1]
            if first == record.offset:
                self._ranges.pop()
                if first < last:
                    self._ranges.append((first + 1, last, count))
                yield SharedRecord(self._partition, record, count)

    def _settle(self, last_offset: int, kind: AcknowledgeType) -> list[tuple[int, int]]:
        """Acknowledge the rest up to `last_offset` with this type; return its ranges."""
        settled: list[tuple[int, int]] = []
        while self._ranges and self._ranges[-1][0] <= last_offset:
            first, last, count = self._ranges.pop()
            if last > last_offset:
                self._ranges.append((last_offset + 1, last, count))
                last = last_offset
            settled.append((first, last))
            self.settled.append(AcknowledgedRange(first, last, kind))
        return settled

    def _settle_unreadable(self, last_offset: int, kind: AcknowledgeType, error: KafkaError) -> None:
        self.unreadable += [
            Unreadable(self._partition, first, last, error) for first, last in self._settle(last_offset, kind)
        ]
