"""Which records of a compacted log stay: the pure part of the cleaner, batch by batch.

A round goes over the log twice. The first pass notes the last offset of every key in the dirty part
(`index_batch`); the second (`clean_batch`) lets each older record of those keys go. Offsets never change, a
batch keeps its first and last offset, and what is kept of it keeps its bytes. The rules are Kafka's:

- A tombstone (null value) that is the last of its key stays until the delete horizon of its batch, which the
  first cleaning that meets it sets to now + delete.retention.ms (KIP-534).
- A transaction marker goes once none of its transaction's batches is left, after a delete horizon of its own;
  the data of aborted transactions goes at once.
- The batch with the last sequence of an active producer, and the last batch of the round, stay as empty
  batches: the first for idempotence, the second so that the end of the cleaned part shows in the log itself.
- A record without a key goes: a compacted topic should never have accepted it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from logstore.compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress
from logstore.errors import ErrorCode, KafkaError
from logstore.offset_map import OffsetMap
from logstore.pure_record_walk import SOUND
from logstore.record import ControlType, iterate_records, parse_marker, seal_batch
from logstore.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
)
from logstore.record_walk import sentence, spans
from logstore.transaction_index import AbortedTransaction
from logstore.varint import ByteSource, append_varint

NO_RECORDS: Final = b""
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
SPANS_AT_ONCE: Final = 1_000  # of the records of a batch: 0.3 MB in memory


class LastRecord(NamedTuple):
    """The last data record of an active producer in this log; None offset when a marker ended the log."""

    last_data_offset: int | None
    producer_epoch: int


class RecordSpan(NamedTuple):
    """Where a record lies in the opened bytes of its batch. `rest` is what follows its timestamp delta."""

    start: int
    rest: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


@dataclass(slots=True)
class CleaningStats:
    """What a round has read and written."""

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
    """Which transactions are open at the batch that a pass has reached; one tracker a pass.

    `retained_aborts` are the rows for the cleaned segment's transaction index: those that still have data.
    """

    waiting: list[AbortedTransaction] = field(default_factory=list)
    open_aborts: dict[int, _OpenAbort] = field(default_factory=dict)
    open_commits: set[int] = field(default_factory=set)
    retained_aborts: list[AbortedTransaction] = field(default_factory=list)

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Announce the aborted transactions that overlap the segment which is read next."""
        known = {*self.waiting, *(entry.transaction for entry in self.open_aborts.values())}
        self.waiting += [one for one in transactions if one not in known]
        self.waiting.sort(key=lambda one: one.first_offset, reverse=True)

    def on_batch(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction and so holds nothing worth keeping."""
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
        """Whether a control batch is not needed any more, because nothing is left of its transaction."""
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
    """What a round of cleaning decides by."""

    now_ms: int
    delete_retention_ms: int
    offset_map: OffsetMap
    # The first offset that this round does not clean; the batch that ends there stays, if only as a header.
    end_offset: int
    last_records: Mapping[int, LastRecord]
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES


class CleanedBatch(NamedTuple):
    """A batch as it is written: its header and bytes (a view of the original when nothing changed)."""

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
) -> bool:
    """Note the keys of a batch at or above `start_offset`; False when the map is full before its end."""
    stats.map_bytes += header.size_bytes
    stats.map_records += header.records_count
    if header.is_control:
        tracker.on_marker(header, batch)
    elif not tracker.on_batch(header) and header.last_offset >= start_offset:
        put, base_offset = offset_map.put, header.base_offset
        content = _open(header, batch, max_decompressed_bytes)
        for span in record_spans(content, header.records_count, header.last_offset_delta):
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
    """What is left of a batch; None when all of it goes."""
    stats.bytes_read += header.size_bytes
    stats.records_read += header.records_count
    may_discard = tracker.on_marker(header, batch) if header.is_control else tracker.on_batch(header)
    discard_records = may_discard
    if header.is_control:
        horizon = header.delete_horizon_ms
        discard_records = may_discard and horizon is not None and horizon <= cleaning.now_ms
    must_stay = header.next_offset == cleaning.end_offset or _is_last_of_producer(
        header, cleaning.last_records
    )
    if discard_records and not must_stay:
        return None
    cleaned: CleanedBatch | None = None
    if not discard_records:
        content = _open(header, batch, cleaning.max_decompressed_bytes)
        found = record_spans(content, header.records_count, header.last_offset_delta)
        kept = [*found] if header.is_control else _kept(header, found, cleaning, stats)
        if kept:
            sets_horizon = header.delete_horizon_ms is None and (
                (may_discard and header.is_control) or not all(span.has_value for span in kept)
            )
            if len(kept) == header.records_count and not sets_horizon:
                cleaned = CleanedBatch(header, batch)
            else:
                horizon_ms = cleaning.now_ms + cleaning.delete_retention_ms if sets_horizon else None
                cleaned = _rebuilt(header, content, kept, horizon_ms)
    if cleaned is None and must_stay:
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
    # The log ends for this producer with a marker, which holds the epoch that fences its older instances.
    return header.is_control and header.producer_epoch == last.producer_epoch


def _kept(
    header: BatchHeader, found: Iterator[RecordSpan], cleaning: CleaningRound, stats: CleaningStats
) -> list[RecordSpan]:
    latest_offset, get = cleaning.offset_map.latest_offset, cleaning.offset_map.get
    base_offset = header.base_offset
    if base_offset > latest_offset:
        return [*found]
    horizon = header.delete_horizon_ms
    keeps_tombstones = horizon is None or cleaning.now_ms < horizon
    kept: list[RecordSpan] = []
    for span in found:
        offset = base_offset + span.offset_delta
        if offset > latest_offset:
            kept.append(span)
        elif span.key is None:
            stats.records_without_key += 1
        elif (span.has_value or keeps_tombstones) and offset >= get(span.key):
            kept.append(span)
    return kept


def _rebuilt(
    header: BatchHeader, content: bytes, kept: Sequence[RecordSpan], new_horizon_ms: int | None
) -> CleanedBatch:
    """The batch with only `kept` records and, unless None, a delete horizon for its base timestamp."""
    body = bytearray()
    base_timestamp = header.base_timestamp
    attributes = header.attributes
    if new_horizon_ms is None:
        for span in kept:
            body += content[span.start : span.end]
    else:
        # The horizon takes the place of the base timestamp, so each record says its timestamp relative to it.
        shift = base_timestamp - new_horizon_ms
        for span in kept:
            record = bytearray(1)
            append_varint(record, _wrapped(span.timestamp_delta + shift))
            record += content[span.rest : span.end]
            append_varint(body, len(record))
            body += record
        attributes |= DELETE_HORIZON_BIT
    max_timestamp = header.max_timestamp
    if not attributes & LOG_APPEND_TIME_BIT:
        max_timestamp = _wrapped(base_timestamp + max(span.timestamp_delta for span in kept))
    records: ByteSource = body
    if header.compression is not Compression.NONE:
        records = compress(header.compression, body)
    rebuilt = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp if new_horizon_ms is None else new_horizon_ms,
        max_timestamp=max_timestamp,
        records_count=len(kept),
    )
    return _sealed(rebuilt, records)


def _emptied(header: BatchHeader) -> CleanedBatch:
    """The header alone, which keeps offsets, producer and sequence."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    emptied = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0)
    return _sealed(emptied, NO_RECORDS)


def _sealed(header: BatchHeader, records: ByteSource) -> CleanedBatch:
    content = seal_batch(header, records)
    return CleanedBatch(header._replace(batch_length=len(content) - LOG_OVERHEAD), content)


def _wrapped(number: int) -> int:
    # Timestamps are the client's, so sums may leave 64 bits; they wrap around as in every Java client.
    return (number + 2**63) % 2**64 - 2**63


def _open(header: BatchHeader, batch: ByteSource, max_bytes: int) -> bytes:
    records = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    return bytes(decompress(header.compression, records, max_bytes=max_bytes))


def record_spans(
    content: ByteSource, records_count: int, last_offset_delta: int = MAX_RELATIVE_OFFSET
) -> Iterator[RecordSpan]:
    """Yield where the records of an opened batch lie; INVALID_RECORD if they are not that many.

    Values and headers are stepped over, not opened: they are copied as they stand.
    """
    index = position = 0
    while index < records_count:
        problem, index, position, found = spans(content, position, index, records_count, SPANS_AT_ONCE)
        for span in map(RecordSpan._make, found):
            if span.offset_delta > last_offset_delta:
                raise KafkaError(ErrorCode.INVALID_RECORD, f"A record has offset delta {span.offset_delta}.")
            yield span
        if problem != SOUND:
            raise KafkaError(ErrorCode.INVALID_RECORD, sentence(problem, index))
    if position != len(content):
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{len(content) - position} bytes are left after {records_count} records.",
        )
