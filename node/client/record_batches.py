"""Pending batches that callers wait for, and the queues that send them to partitions in order.

A queue sends the batches of one partition. It has one batch in flight at a time, so the order is kept, and
with a producer id and sequence numbers a batch that is sent again is not stored twice (KIP-98). A batch that
is rejected for one of its records is sent again in halves: its other records may come from other clients.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple

from ottla.logstore.compression import Compression
from ottla.logstore.record_batch import HEADER_SIZE, increment_sequence
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.batch_builder import BatchBuilder
from ottla.node.client.producer import RECORD_OVERHEAD_BYTES, ProducerRecord

NO_OFFSET: Final = -1
# One invalid record makes the leader reject its whole batch.
OF_A_RECORD: Final = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
# The leader does not know the batches sent before, as after its log was lost.
_OF_THE_SEQUENCE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class ProducerIdentity(NamedTuple):
    """The producer id and epoch of a queue, which its sequence numbers belong to."""

    producer_id: int
    epoch: int


class PendingBatch:
    """Records of one partition that are sent together; `done` is set when each has its outcome."""

    __slots__ = (
        "deadline_s",
        "done",
        "log_append_time_ms",
        "outcomes",
        "partition",
        "records",
        "size_bytes",
        "timestamps",
        "undecided",
    )

    def __init__(self, partition: TopicPartition, deadline_s: float) -> None:
        self.partition = partition
        self.deadline_s = deadline_s
        self.records: list[ProducerRecord] = []
        self.timestamps: list[int] = []
        self.size_bytes = HEADER_SIZE
        self.outcomes: list[int | KafkaError] = []  # the offset of each record, or its error
        self.undecided = 0
        self.log_append_time_ms = -1
        self.done = asyncio.Event()

    def append(self, record: ProducerRecord, timestamp: int) -> int:
        """Add a record; return its index in the batch."""
        self.records.append(record)
        self.timestamps.append(timestamp)
        self.outcomes.append(NO_OFFSET)
        self.size_bytes += record_size(record)
        self.undecided += 1
        return len(self.records) - 1

    def timestamp_of(self, index: int) -> int:
        """Return the timestamp of a record in the log: CreateTime or LogAppendTime, as the topic is set."""
        return self.timestamps[index] if self.log_append_time_ms < 0 else self.log_append_time_ms


def record_size(record: ProducerRecord) -> int:
    """Return an upper bound of the bytes that a record adds to a batch."""
    size_bytes = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size_bytes += sum(4 * len(name) + len(value or b"") + 10 for name, value in record.headers)
    return size_bytes


class Delivery(NamedTuple):
    """A record in a pending batch, for its outcome."""

    batch: PendingBatch
    record_index: int

    @property
    def outcome(self) -> int | KafkaError:
        """Return the offset, or the error; valid once `batch.done` is set."""
        return self.batch.outcomes[self.record_index]

    @property
    def timestamp(self) -> int:
        return self.batch.timestamp_of(self.record_index)


class _Piece(NamedTuple):
    """Records of a pending batch that are sent as one batch of the log."""

    batch: PendingBatch
    first: int
    end: int

    @property
    def records_count(self) -> int:
        return self.end - self.first

    def halves(self) -> tuple["_Piece", "_Piece"]:
        middle = (self.first + self.end) // 2
        return self._replace(end=middle), self._replace(first=middle)


class PartitionQueue:
    """The batches of one partition, sent in order."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.identity: ProducerIdentity | None = None
        self.is_busy = False  # a task sends its records, or waits to retry
        # After a failure its sequence numbers under the shared id are unknown.
        self.needs_own_identity = False
        self.content: bytearray | None = None  # the piece in flight, encoded
        self.tries = 0
        self._sequence = 0
        self._open: PendingBatch | None = None  # accepts more records; the last of `_pieces`
        self._pieces: deque[_Piece | PendingBatch] = deque()
        self._under_way: _Piece | None = None
        self._was_uncertain = False  # an attempt may have reached the log, though no response came

    @property
    def has_work(self) -> bool:
        return self._under_way is not None or bool(self._pieces)

    @property
    def deadline_s(self) -> float:
        """Return the deadline of the next records."""
        piece = self._under_way or self._pieces[0]
        return piece.deadline_s if isinstance(piece, PendingBatch) else piece.batch.deadline_s

    def batch_for(self, size_bytes: int, max_bytes: int, deadline_s: float) -> PendingBatch:
        """Return the batch for a record of this size; start a new one if it does not fit."""
        batch = self._open
        if batch is None or batch.size_bytes + size_bytes > max_bytes:
            batch = self._open = PendingBatch(self.partition, deadline_s)
            self._pieces.append(batch)
        return batch

    @property
    def is_in_doubt(self) -> bool:
        """Return True if the piece in flight may be in the log, though an earlier attempt got no response."""
        return self._under_way is not None and self._was_uncertain

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of the last record in flight."""
        assert self._under_way is not None, "no piece is in flight"
        return increment_sequence(self._sequence, self._under_way.records_count - 1)

    def encode(self) -> bytearray:
        """Return the batch to send now; the same bytes again until it has an outcome."""
        assert self.identity is not None and self.has_work
        if self.content is None:
            piece = self._next_piece()
            builder = BatchBuilder()
            batch = piece.batch
            for index in range(piece.first, piece.end):
                record = batch.records[index]
                builder.append(record.key, record.value, batch.timestamps[index], record.headers)
            self.content = builder.build(
                compression=Compression.NONE,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                base_sequence=self._sequence,
            )
        self.tries += 1
        return self.content

    def _next_piece(self) -> _Piece:
        if self._under_way is None:
            piece = self._pieces.popleft()
            if isinstance(piece, PendingBatch):
                if piece is self._open:
                    self._open = None
                piece = _Piece(piece, 0, len(piece.records))
            self._under_way = piece
            self.tries = 0
        return self._under_way

    # ---- outcomes --------------------------------------------------------------------------------

    def stored(self, base_offset: int, log_append_time_ms: int) -> int:
        """Note that the piece in flight is in the log; return the bytes that are no longer pending."""
        piece = self._take()
        batch = piece.batch
        self._sequence = increment_sequence(self._sequence, piece.records_count)
        batch.log_append_time_ms = log_append_time_ms
        if base_offset >= 0:  # the leader may return none for a duplicate: its offsets stay unknown
            batch.outcomes[piece.first : piece.end] = range(base_offset, base_offset + piece.records_count)
        return _decided(piece)

    def was_not_stored(self) -> None:
        """Note that the leader has no earlier attempt in the log."""
        self._was_uncertain = False

    def failed(self, error: KafkaError, *, is_answer: bool, can_wait: bool) -> int | None:
        """Note an error of the piece in flight; if it `is_answer` of the leader, the piece is not stored.

        Return None if it must be sent again after a pause, else the bytes of records that are no longer
        pending.
        """
        if error.code in OF_A_RECORD and not self._was_uncertain and self._split():
            return 0
        if error.code in _OF_THE_SEQUENCE and not self._was_uncertain and can_wait:
            self._reset()
            return None
        if error.code.retriable and can_wait:
            self._was_uncertain = self._was_uncertain or not is_answer
            return None
        is_certain = is_answer and not self._was_uncertain
        if self._under_way is None:  # it was not sent yet
            self._next_piece()
        piece = self._take()
        if not is_certain:
            self._reset()
        piece.batch.outcomes[piece.first : piece.end] = [error] * piece.records_count
        return _decided(piece)

    def abandon(self, error: KafkaError) -> None:
        """Set this error for all records without an outcome, since no task sends them any more."""
        pieces = [*self._pieces] if self._under_way is None else [self._under_way, *self._pieces]
        for piece in pieces:
            batch = piece if isinstance(piece, PendingBatch) else piece.batch
            batch.outcomes = [error if one == NO_OFFSET else one for one in batch.outcomes]
            batch.done.set()
        self._under_way = None
        self._pieces.clear()

    def _split(self) -> bool:
        piece = self._under_way
        if piece is None or piece.records_count < 2:
            return False
        self._take()
        self._pieces.extendleft(reversed(piece.halves()))
        return True

    def _take(self) -> _Piece:
        piece = self._under_way
        assert piece is not None, "an outcome without a piece in flight"
        self._under_way = self.content = None
        self._was_uncertain = False
        return piece

    def _reset(self) -> None:
        self.identity, self.needs_own_identity, self._sequence, self.content = None, True, 0, None


def _decided(piece: _Piece) -> int:
    batch = piece.batch
    batch.undecided -= piece.records_count
    if batch.undecided:
        return 0
    batch.done.set()
    return batch.size_bytes - HEADER_SIZE  # the bytes that its records added; the header was not counted
