"""Appends the records of a coordinator's shard to its partition, and holds answers until these are committed.

The records of one turn of the event loop become one batch, so a hundred commits that came together cost one
append and one wait. The records of one `append` are never split over batches; records in a transaction are a
batch of their own. An answer is sent when everything appended before it is committed; answers keep the order
in which they were given.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.groupcoord.offsets.offset_commands import Producer
from ottla.groupcoord.request_token import Token
from ottla.logstore.compression import Compression
from ottla.logstore.open_batch import OpenBatch
from ottla.logstore.partition_log import AppendOrigin, AppendResult
from ottla.logstore.record import EndTransactionMarker
from ottla.logstore.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.logstore.verification import Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.clock import Clock
from ottla.node.replica.delayed_produce import RequiredOffset
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager

FIRST_SEQUENCE: Final = 0  # of every batch in a transaction, as Apache Kafka's coordinator writes them
PRODUCE_VERSION = 13  # the version of Produce whose rules the coordinator's own appends must keep
# The most bytes of a record beside key and value: lengths, attributes, deltas and the count of its headers.
RECORD_OVERHEAD_BYTES: Final = 32
# How often events that cannot time out check the high watermark again, once the commit timeout is over.
LOOK_AGAIN_S: Final = 0.1
# How long records that no client waits for may wait for others, to share their batch. A batch costs a node
# some 100 us, and each of its followers a fetch.
LINGER_S: Final = 0.005

A = TypeVar("A")  # answers of the coordinator
Completion: TypeAlias = Callable[[KafkaError | None], None]


class RowsWithKeyHead(NamedTuple):
    """Records whose keys differ only in their tails; all tails have one length, and so have all values."""

    key_head: bytes
    key_tails: Sequence[bytes]
    values: Sequence[bytes]


# The key and value of a record (None for a tombstone), or many records at once.
Row: TypeAlias = tuple[bytes, bytes | None] | RowsWithKeyHead


class _DeferredEvent(NamedTuple):
    """An event that completes when the high watermark reaches `end_offset`; Kafka's DeferredEvent.

    If it `can_time_out`, it completes with an error when that takes longer than the commit timeout.
    """

    end_offset: int
    complete: Completion
    can_time_out: bool


class CoordinatorLog(Generic[A]):
    """The appends of one leader epoch.

    `failed` is called if the batch of a turn is rejected, which appends nothing, or if records will not be
    committed because this node no longer leads the partition or cannot write to its disk. A batch that
    `append` itself writes fails with an exception instead.
    """

    def __init__(
        self,
        *,
        partition: Partition,
        replicas: ReplicaManager,
        clock: Clock,
        commit_timeout_ms: int,
        compression: Compression,
        max_batch_bytes: int,
        answer: Callable[[Token, A | KafkaError], None],
        failed: Callable[[KafkaError], None],
    ) -> None:
        self.leader_epoch = partition.leader_epoch
        self._partition = partition
        self._replicas = replicas
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._compression = compression
        self._max_batch_bytes = max_batch_bytes
        self._answer = answer
        self._failed = failed
        # Records of an earlier leader epoch may still be lost, so no answer shows them before their commit.
        self._append_end_offset = partition.log.log_end_offset
        self._batch = OpenBatch()
        self._batch_bytes = 0  # at least the size of its records
        self._open_events: list[tuple[Completion, bool]] = []  # deferred until the open batch is appended
        self._flushing: asyncio.Handle | None = None
        self._is_lingering = False  # no client waits for the open batch
        self._deferred: deque[_DeferredEvent] = deque()  # until the high watermark; in the order of offsets
        self._overdue: list[_DeferredEvent] = []  # cannot time out, and the commit timeout has passed
        self._looking: asyncio.TimerHandle | None = None

    def check(self, producer: Producer | None = None, guard: Guard | None = None) -> None:
        """Raise a KafkaError for the client if the partition would not take an append now.

        If `producer` is given, the append is in a transaction of this producer.
        """
        if not self._partition.is_leader or self._partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "this coordinator belongs to an older leader epoch")
        if not self._partition.has_enough_replicas():
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas are in sync")
        if producer is not None:
            self._partition.log.check_transaction(*producer, guard)

    def append(
        self,
        rows: Sequence[Row],
        producer: Producer | None = None,
        guard: Guard | None = None,
        *,
        may_linger: bool = False,
    ) -> None:
        """Add records to the open batch, or append them at once if they are in a transaction of `producer`.

        The first batch of a transaction needs its `guard`. Records that `may_linger` are appended when a
        client waits for them, or after `LINGER_S`. Raises KafkaError if a batch could not be appended.
        """
        size = sum(map(_size_bytes, rows))
        if self._batch.count and (producer or self._batch_bytes + size > self._max_batch_bytes):
            self.flush()
        now_ms = self._clock.now_ms()
        for row in rows:
            if isinstance(row, RowsWithKeyHead):
                self._batch.append_alike(*row, now_ms)
            else:
                self._batch.append(*row, now_ms)
        self._batch_bytes += size
        if producer is not None:
            self.flush(producer, guard)
            return
        if may_linger and self._flushing is None:
            self._linger(LINGER_S)
        elif not may_linger:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if self._flushing is None or self._is_lingering:
            self._stop_flushing()
            self._flushing = asyncio.get_running_loop().call_soon(self._flush_at_the_end_of_the_turn)

    def _linger(self, seconds: float) -> None:
        self._is_lingering = True
        self._flushing = asyncio.get_running_loop().call_later(seconds, self._end_lingering)

    def _end_lingering(self) -> None:
        self._flushing, self._is_lingering = None, False
        if self._partition.is_leader and not self._partition.has_enough_replicas():
            self._linger(LOOK_AGAIN_S)  # commands that would wait for it are rejected meanwhile
        else:
            self._flush_at_the_end_of_the_turn()

    def _stop_flushing(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing, self._is_lingering = None, False

    def answer_when_committed(self, token: Token, answer: A | KafkaError) -> None:
        """Send an answer when everything appended so far is committed, which may be now.

        After the commit timeout an error is sent instead.
        """
        self._defer(partial(self._give, token, answer), can_time_out=True)

    def when_committed(self, complete: Completion) -> None:
        """Call `complete` with None when everything appended so far is committed, which may be now.

        This may take any time. `complete` gets an error if the leader epoch ends before.
        """
        self._defer(complete, can_time_out=False)

    def _give(self, token: Token, answer: A | KafkaError, error: KafkaError | None) -> None:
        self._answer(token, answer if error is None else error)

    def _defer(self, complete: Completion, *, can_time_out: bool) -> None:
        if self._batch.count:
            self._open_events.append((complete, can_time_out))
            self._flush_soon()
        else:
            self._defer_until_committed([(complete, can_time_out)])

    def append_marker(
        self,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
    ) -> AppendResult:
        """Append a marker that ends a transaction, after everything appended so far.

        Raises KafkaError if the marker is rejected, or if the open batch before it could not be appended;
        in the second case `failed` is called as well.
        """
        try:
            self.flush()
        except KafkaError as error:
            self._failed(error)
            raise
        result = self._partition.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_version=transaction_version,
            now_ms=self._clock.now_ms(),
        )
        self._append_end_offset = result.last_offset + 1
        return result

    def flush(self, producer: Producer | None = None, guard: Guard | None = None) -> None:
        """Append the open batch, in the transaction of `producer` if it is given.

        Raises KafkaError if that fails; then the caller must `close` this log.
        """
        self._stop_flushing()
        if not self._batch.count:
            return
        if self._partition.leader_epoch != self.leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "this coordinator belongs to an older leader epoch"
            )
        result = self._partition.append_as_leader(
            self._batch.seal(
                compression=self._compression,
                producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
                producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
                base_sequence=NO_SEQUENCE if producer is None else FIRST_SEQUENCE,
                is_transactional=producer is not None,
            ),
            required_acks=-1,
            now_ms=self._clock.now_ms(),
            produce_version=PRODUCE_VERSION,
            origin=AppendOrigin.COORDINATOR,
            guard=guard,
        )
        self._append_end_offset = result.last_offset + 1
        events, self._open_events = self._open_events, []
        self._batch, self._batch_bytes = OpenBatch(), 0
        self._defer_until_committed(events)

    def close(self, error: KafkaError, *, not_appended: KafkaError) -> None:
        """End this leader epoch: complete the deferred events with `error`.

        Events whose batch was never appended complete with `not_appended`.
        """
        if self._is_lingering:
            with contextlib.suppress(KafkaError):  # it may be lost: no client was answered
                self.flush()
        self._stop_flushing()
        if self._looking is not None:
            self._looking.cancel()
        committing = [*self._overdue, *self._deferred]
        opened = self._open_events
        self._deferred.clear()
        self._overdue, self._open_events, self._batch = [], [], OpenBatch()
        for each in committing:
            each.complete(error)
        for complete, _ in opened:
            complete(not_appended)

    def _flush_at_the_end_of_the_turn(self) -> None:
        self._flushing = None
        try:
            self.flush()
        except KafkaError as error:
            self._failed(error)

    def _defer_until_committed(self, events: list[tuple[Completion, bool]]) -> None:
        end_offset = self._append_end_offset
        if self._partition.log.high_watermark >= end_offset:
            for complete, _ in events:
                complete(None)
            return
        is_watched = bool(self._deferred) and self._deferred[-1].end_offset == end_offset
        self._deferred.extend(_DeferredEvent(end_offset, *each) for each in events)
        if events and not is_watched:
            required = RequiredOffset(end_offset, self.leader_epoch)
            future = self._replicas.delay_produce({self._partition: required}, self._commit_timeout_ms)
            future.add_done_callback(lambda done: self._settle(end_offset, done))

    def _settle(self, end_offset: int, done: "asyncio.Future[Mapping[Partition, ErrorCode]]") -> None:
        """Complete the events up to `end_offset`: it is committed, or was not in time."""
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if done.cancelled() else done.result()[self._partition]
        error = None if code is ErrorCode.NONE else coordinator_error(KafkaError(code))
        while self._deferred and self._deferred[0].end_offset <= end_offset:
            each = self._deferred.popleft()
            if error is not None and not each.can_time_out:
                self._overdue.append(each)
            else:
                each.complete(error)
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
            self._failed(KafkaError(code))
        elif self._overdue and self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._looking = None
        if self._partition.leader_epoch != self.leader_epoch or not self._partition.is_leader:
            self._failed(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        high_watermark = self._partition.log.high_watermark
        overdue, self._overdue = self._overdue, []
        self._overdue = [each for each in overdue if each.end_offset > high_watermark]
        if self._overdue:
            self._looking = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)
        for each in overdue:
            if each.end_offset <= high_watermark:
                each.complete(None)


def _size_bytes(row: Row) -> int:
    """Return an upper bound of the bytes that a row takes in a batch."""
    if isinstance(row, RowsWithKeyHead):
        each = len(row.key_head) + len(row.key_tails[0]) + len(row.values[0]) + RECORD_OVERHEAD_BYTES
        return each * len(row.values)
    key, value = row
    return len(key) + (0 if value is None else len(value)) + RECORD_OVERHEAD_BYTES


def coordinator_error(error: KafkaError) -> KafkaError:
    """Return the error for a client of the coordinator when the partition has rejected an append.

    The client did not name the internal topic, so errors about a topic become errors of the coordinator.
    """
    match error.code:
        case (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            code = ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            code = error.code
    return KafkaError(code, error.detail)
