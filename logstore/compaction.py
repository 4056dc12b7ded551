"""Compaction, the pure part of the cleaner: it decides, batch by batch, which records of a log to keep.

A round has two passes over the log. The first notes the last offset of every key in the dirty part
(`index_batch`); the second (`clean_batch`) drops the older records of those keys. Offsets never change, a
batch keeps its first and last offset, and the records that are kept keep their bytes. The rules are Kafka's:

- A tombstone (null value) that is the last record of its key is kept until the delete horizon of its batch,
  which the first round that meets it sets to now + delete.retention.ms (KIP-534).
- A transaction marker is dropped when none of its transaction's batches is left, after a delete horizon of
  its own; the data of aborted transactions is dropped at once.
- The batch with the last sequence of an active producer, and the last batch of the round, are kept at least
  as empty batches: the first for idempotence, the second so that the log shows the end of the cleaned part.
- A record without a key is dropped: a compacted topic should never have accepted it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress as selected
from typing import Final, NamedTuple

from ottla.logstore.compression import MAX_DECOMPRESSED_BYTES, compress, compress_pieces
from ottla.logstore.offset_map import OffsetMap
from ottla.logstore.opened_records import NO_PAUSE, OpenedRecords, open_records
from ottla.logstore.pure_record_walk import LENGTH, LONG_MIN, VALID
from ottla.logstore.record import ControlType, iterate_records, parse_marker, seal_batch
from ottla.logstore.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
)
from ottla.logstore.record_walk import describe_problem, spans
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource, append_varint

NO_RECORDS: Final = b""
SPANS_AT_ONCE: Final = 1_000  # records of a batch: 0.3 MB in memory
MAX_REMEMBERED: Final = 10_000  # records of a batch whose spans are kept for copying: 3 MB
MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class LastRecord(NamedTuple):
    """The last data record of an active producer in the log; its offset is None if a marker came after."""

    last_data_offset: int | None
    producer_epoch: int


class RecordSpan(NamedTuple):
    """The positions of a record in the decompressed batch; `rest` is the one after its timestamp delta."""

    start: int
    rest: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


@dataclass(slots=True)
class CleaningStats:
    """The numbers of records and bytes that a round has read and written."""

    map_records: int = 0
    map_bytes: int = 0
    records_read: int = 0
    bytes_read: int = 0
    records_written: int = 0
    bytes_written: int = 0
    records_without_key: int = 0


@dataclass(slots=True)
class _OpenAbort:
    transaction: AbortedTransaction
    has_batches: bool = False


@dataclass(slots=True)
class TransactionTracker:
    """The transactions that are open at the batch that a pass has reached; each pass has a tracker.

    `retained_aborts` are the rows for the cleaned segment's transaction index: aborted transactions that
    still have batches.
    """

    waiting: list[AbortedTransaction] = field(default_factory=list)
    open_aborts: dict[int, _OpenAbort] = field(default_factory=dict)
    open_commits: set[int] = field(default_factory=set)
    retained_aborts: list[AbortedTransaction] = field(default_factory=list)

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions that overlap the segments to be read."""
        known = {*self.waiting, *(entry.transaction for entry in self.open_aborts.values())}
        self.waiting += [one for one in transactions if one not in known]
        self.waiting.sort(key=lambda one: one.first_offset, reverse=True)

    def on_batch(self, header: BatchHeader) -> bool:
        """Return True if a data batch belongs to an aborted transaction, so that its records are dropped."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self.open_aborts.get(header.producer_id)
        if aborted is None:
            self.open_commits.add(header.producer_id)
            return False
        aborted.has_batches = True
        return True

    def on_marker(self, header: BatchHeader, batch: ByteSource) -> bool:
        """Return True if a control batch is no longer needed, as its transaction has no batch left."""
        self._open_up_to(header.last_offset)
        record = next(iterate_records(batch), None)
        if record is None:
            return True
        marker = parse_marker(record)
        if marker is None:
            return False
        if marker.control_type is ControlType.COMMIT:
            if header.producer_id in self.open_commits:
                self.open_commits.discard(header.producer_id)
                return False
            return True
        aborted = self.open_aborts.pop(header.producer_id, None)
        if aborted is not None and aborted.has_batches:
            self.retained_aborts.append(aborted.transaction)
            return False
        return True

    def _open_up_to(self, offset: int) -> None:
        while self.waiting and self.waiting[-1].first_offset <= offset:
            transaction = self.waiting.pop()
            self.open_aborts.setdefault(transaction.producer_id, _OpenAbort(transaction))


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRound:
    """The parameters of a round of cleaning."""

    now_ms: int
    delete_retention_ms: int
    offset_map: OffsetMap
    # The first offset that this round does not clean; the batch that ends there is kept, at least its header.
    end_offset: int
    last_records: Mapping[int, LastRecord]
    leaves_rest: bool = False  # batches beyond the map stay unopened; else tombstones there get a horizon
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    # Called before each piece of the records of a batch is opened; it may raise.
    pause: Callable[[], None] = NO_PAUSE


class CleanedBatch(NamedTuple):
    """A batch to write: its header and bytes (a view of the original if nothing changed)."""

    header: BatchHeader
    content: ByteSource


def index_batch(
    header: BatchHeader,
    batch: ByteSource,
    *,
    start_offset: int,
    offset_map: OffsetMap,
    tracker: TransactionTracker,
    stats: CleaningStats,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    pause: Callable[[], None] = NO_PAUSE,
) -> bool:
    """Put the keys of a batch from `start_offset` on into the map; return False if the map is full before.

    `pause` is called before each piece of the records is opened, and may raise.
    """
    stats.map_bytes += header.size_bytes
    stats.map_records += header.records_count
    if header.is_control:
        tracker.on_marker(header, batch)
    elif not tracker.on_batch(header) and header.last_offset >= start_offset:
        put, base_offset = offset_map.put, header.base_offset
        opened = open_records(header, batch, max_bytes=max_decompressed_bytes, pause=pause)
        for _, spans_here in _spans_of(header, opened):
            for span in spans_here:
                offset = base_offset + span.offset_delta
                if span.key is not None and offset >= start_offset and not put(span.key, offset):
                    return False
    if header.last_offset >= start_offset:
        offset_map.latest_offset = max(offset_map.latest_offset, header.last_offset)
    return True


def clean_batch(
    header: BatchHeader,
    batch: ByteSource,
    *,
    cleaning: CleaningRound,
    tracker: TransactionTracker,
    stats: CleaningStats,
) -> CleanedBatch | None:
    """Return the batch without the records that are dropped; None if nothing of it is kept."""
    stats.bytes_read += header.size_bytes
    stats.records_read += header.records_count
    may_discard = tracker.on_marker(header, batch) if header.is_control else tracker.on_batch(header)
    if cleaning.leaves_rest and not may_discard and header.base_offset > cleaning.offset_map.latest_offset:
        stats.bytes_written += header.size_bytes
        stats.records_written += header.records_count
        return CleanedBatch(header, batch)
    discard_records = may_discard
    if header.is_control:
        horizon = header.delete_horizon_ms
        discard_records = may_discard and horizon is not None and horizon <= cleaning.now_ms
    must_retain = header.next_offset == cleaning.end_offset or _is_last_of_producer(
        header, cleaning.last_records
    )
    if discard_records and not must_retain:
        return None
    cleaned: CleanedBatch | None = None
    if not discard_records:
        cleaned = _with_kept_records(header, batch, cleaning, may_discard=may_discard, stats=stats)
    if cleaned is None and must_retain:
        cleaned = _emptied(header)
    if cleaned is not None:
        stats.bytes_written += cleaned.header.size_bytes
        stats.records_written += cleaned.header.records_count
    return cleaned


def _is_last_of_producer(header: BatchHeader, last_records: Mapping[int, LastRecord]) -> bool:
    last = last_records.get(header.producer_id) if header.has_producer_id else None
    if last is None:
        return False
    if last.last_data_offset is not None:
        return header.last_offset == last.last_data_offset
    # The producer's last batch in the log is a marker, whose epoch fences older instances of the producer.
    return header.is_control and header.producer_epoch == last.producer_epoch


def _with_kept_records(
    header: BatchHeader,
    batch: ByteSource,
    cleaning: CleaningRound,
    *,
    may_discard: bool,
    stats: CleaningStats,
) -> CleanedBatch | None:
    """Return the batch without the records that are dropped; None if all of them are.

    With many records, one byte is kept for each, and the batch is decompressed once more for copying.
    """
    should_retain = _retains_all if header.is_control else _record_filter(header, cleaning, stats)
    chosen = bytearray()  # for each record, 1 if it is kept
    kept: list[RecordSpan] = []
    kept_count, all_have_values, largest_delta = 0, True, LONG_MIN
    opened = _opened(header, batch, cleaning)
    first = opened.content
    for _, spans_here in _spans_of(header, opened):
        for span in spans_here:
            is_retained = should_retain(span)
            chosen.append(is_retained)
            if is_retained:
                kept_count += 1
                all_have_values = all_have_values and span.has_value
                largest_delta = max(largest_delta, span.timestamp_delta)
                if len(chosen) <= MAX_REMEMBERED:
                    kept.append(span)
    if not kept_count:
        return None
    sets_horizon = header.delete_horizon_ms is None and (
        (may_discard and header.is_control) or not all_have_values
    )
    if kept_count == header.records_count and not sets_horizon:
        return CleanedBatch(header, batch)
    rebuilt, shift = header, None
    if sets_horizon:
        # The horizon replaces the base timestamp, so each record's timestamp delta becomes relative to it.
        horizon_ms = cleaning.now_ms + cleaning.delete_retention_ms
        shift = header.base_timestamp - horizon_ms
        rebuilt = header._replace(
            attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms
        )
    if not header.attributes & LOG_APPEND_TIME_BIT:
        rebuilt = rebuilt._replace(max_timestamp=_wrapped(header.base_timestamp + largest_delta))
    if len(chosen) <= MAX_REMEMBERED and opened.content is first:  # in one piece
        body = _copied(first, kept, shift)
        records: ByteSource = body if not header.compression else compress(header.compression, body)
    else:
        records = compress_pieces(header.compression, _copies(header, batch, cleaning, chosen, shift))
    return _sealed(rebuilt._replace(records_count=kept_count), records)


def _opened(header: BatchHeader, batch: ByteSource, cleaning: CleaningRound) -> OpenedRecords:
    return open_records(header, batch, max_bytes=cleaning.max_decompressed_bytes, pause=cleaning.pause)


def _spans_of(header: BatchHeader, opened: OpenedRecords) -> Iterator[tuple[ByteSource, list[RecordSpan]]]:
    return record_spans(opened, header.records_count, header.last_offset_delta)


def _retains_all(span: RecordSpan) -> bool:
    return True


def _record_filter(
    header: BatchHeader, cleaning: CleaningRound, stats: CleaningStats
) -> Callable[[RecordSpan], bool]:
    """Return the function that decides which data records of this batch are kept."""
    latest_offset, get = cleaning.offset_map.latest_offset, cleaning.offset_map.get
    base_offset = header.base_offset
    if base_offset > latest_offset:
        return _retains_all
    horizon = header.delete_horizon_ms
    keeps_tombstones = horizon is None or cleaning.now_ms < horizon

    def should_retain(span: RecordSpan) -> bool:
        offset = base_offset + span.offset_delta
        if offset > latest_offset:
            return True
        if span.key is None:
            stats.records_without_key += 1
            return False
        return (span.has_value or keeps_tombstones) and offset >= get(span.key)

    return should_retain


def _copies(
    header: BatchHeader,
    batch: ByteSource,
    cleaning: CleaningRound,
    chosen: bytearray,
    shift: int | None,
) -> Iterator[bytearray]:
    index = 0
    for content, spans_here in _spans_of(header, _opened(header, batch, cleaning)):
        end = index + len(spans_here)
        yield _copied(content, [*selected(spans_here, chosen[index:end])], shift)
        index = end


def _copied(content: ByteSource, kept: Sequence[RecordSpan], shift: int | None) -> bytearray:
    """Return the bytes of these records, with `shift` added to their timestamp deltas unless it is None."""
    body = bytearray()
    for span in kept:
        if shift is None:
            body += content[span.start : span.end]
            continue
        record = bytearray(1)
        append_varint(record, _wrapped(span.timestamp_delta + shift))
        record += content[span.rest : span.end]
        append_varint(body, len(record))
        body += record
    return body


def _emptied(header: BatchHeader) -> CleanedBatch:
    """Return the batch without records; its header keeps offsets, producer and sequence."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    emptied = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0)
    return _sealed(emptied, NO_RECORDS)


def _sealed(header: BatchHeader, records: ByteSource) -> CleanedBatch:
    content = seal_batch(header, records)
    return CleanedBatch(header._replace(batch_length=len(content) - LOG_OVERHEAD), content)


def _wrapped(number: int) -> int:
    # Clients choose the timestamps, so sums may exceed 64 bits; they wrap around as in every Java client.
    return (number + 2**63) % 2**64 - 2**63


def record_spans(
    opened: OpenedRecords, count: int, last_offset_delta: int = MAX_RELATIVE_OFFSET
) -> Iterator[tuple[ByteSource, list[RecordSpan]]]:
    """Yield the spans of a batch's records, some at a time, with the bytes to which they refer.

    Values and headers are skipped, as they are copied unchanged. INVALID_RECORD if the records are malformed
    or not `count`.
    """
    index = 0
    while index < count:
        content = opened.content
        problem, index, opened.position, found = spans(content, opened.position, index, count, SPANS_AT_ONCE)
        here = [*map(RecordSpan._make, found)]
        for span in here:
            if span.offset_delta > last_offset_delta:
                raise KafkaError(ErrorCode.INVALID_RECORD, f"A record has offset delta {span.offset_delta}.")
        yield content, here
        if problem != VALID and not (problem == LENGTH and opened.more()):
            raise KafkaError(ErrorCode.INVALID_RECORD, describe_problem(problem, index))
    if not opened.is_at_end():
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{opened.left_bytes()} bytes follow the {count} records of a batch."
        )
