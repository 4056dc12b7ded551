"""What a shard of a coordinator appends to its partition, and the answers that wait until it is there.

All that a shard appends in one turn of the event loop becomes one batch, so that a hundred commits that came
together cost one append and one wait. What is appended at once is in one batch, whole; what belongs to a
transaction is a batch of its own. An answer leaves when everything that was appended before it is committed,
in the order in which the answers were given.
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
PRODUCE_VERSION = 13  # as which version of Produce the coordinator's own appends are judged
# What a record takes beside key and value at most: lengths, attributes, deltas and the count of its headers.
RECORD_OVERHEAD_BYTES: Final = 32
# How often events that cannot time out check the high watermark again, once the commit timeout is over.
LOOK_AGAIN_S: Final = 0.1
# For how long an append that nobody waits for may wait for another one to go with. A batch costs a node some
# 100 us, and its followers a fetch each.
LINGER_S: Final = 0.005

A = TypeVar("A")  # what the coordinator answers
Completion: TypeAlias = Callable[[KafkaError | None], None]


class AlikeRows(NamedTuple):
    """Records whose keys differ only in their ends; all ends, and all values, are of one length."""

    key_head: bytes
    key_tails: Sequence[bytes]
    values: Sequence[bytes]


# Key and value of a record, None for a tombstone; or many at once.
Row: TypeAlias = tuple[bytes, bytes | None] | AlikeRows


class _DeferredEvent(NamedTuple):
    """Completed when the high watermark reaches `end_offset`; Kafka's DeferredEvent.

    If it `can_time_out`, it is completed with an error when that takes longer than the commit timeout.
    """

    end_offset: int
    complete: Completion
    can_time_out: bool


class CoordinatorLog(Generic[A]):
    """One reign's appends. `failed` is told when a batch could not be appended; nothing is appended then."""

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
        # What another reign wrote may still be lost, and must not be shown before it is committed.
        self._append_end_offset = partition.log.log_end_offset
        self._batch = OpenBatch()
        self._batch_bytes = 0  # no less than what its records take
        self._open_events: list[tuple[Completion, bool]] = []  # deferred until the open batch is appended
        self._flushing: asyncio.Handle | None = None
        self._is_lingering = False  # nobody waits for the open batch
        self._deferred: deque[_DeferredEvent] = deque()  # until the high watermark; in the order of offsets
        self._overdue: list[_DeferredEvent] = []  # cannot time out, and the commit timeout is over
        self._looking: asyncio.TimerHandle | None = None

    def check(self, producer: Producer | None = None, guard: Guard | None = None) -> None:
        """Whether the partition would take an append now, in a transaction of `producer`; the error that
        clients are told if not.
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
        """Add to the open batch; what belongs to a transaction is appended at once, with the `guard` that the
        first batch of one needs. What `may_linger` is appended when somebody waits for it, or in a while.
        KafkaError if what is appended could not be.
        """
        size = sum(map(_size_bytes, rows))
        if self._batch.count and (producer or self._batch_bytes + size > self._max_batch_bytes):
            self.flush()
        now_ms = self._clock.now_ms()
        for row in rows:
            if isinstance(row, AlikeRows):
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
            self._linger(LOOK_AGAIN_S)  # who would wait for it is refused meanwhile
        else:
            self._flush_at_the_end_of_the_turn()

    def _stop_flushing(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing, self._is_lingering = None, False

    def answer_when_committed(self, token: Token, answer: A | KafkaError) -> None:
        """Send an answer when everything appended so far is committed, which may be now; an error after the
        commit timeout.
        """
        self._defer(partial(self._give, token, answer), can_time_out=True)

    def when_committed(self, complete: Completion) -> None:
        """Call `complete` with None when everything appended so far is committed, which may be now, however
        long it takes; with the error if the leader epoch ends before.
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
        """End a transaction behind all that was appended so far. KafkaError if the marker is refused; and if
        a batch before it could not be appended, of which `failed` is told, too.
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
        """Append the open batch, in the transaction of `producer`; KafkaError if that fails, which `close`
        has to follow.
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
        """End this leader epoch: deferred events complete with `error`, or with `not_appended` if their batch
        was never appended.
        """
        if self._is_lingering:
            with contextlib.suppress(KafkaError):  # as well as not: nobody was told
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
        """The append up to `end_offset` is committed, or it will not be in time."""
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
    """No less than what a row will take in a batch."""
    if isinstance(row, AlikeRows):
        each = len(row.key_head) + len(row.key_tails[0]) + len(row.values[0]) + RECORD_OVERHEAD_BYTES
        return each * len(row.values)
    key, value = row
    return len(key) + (0 if value is None else len(value)) + RECORD_OVERHEAD_BYTES


def coordinator_error(error: KafkaError) -> KafkaError:
    """What a client of the coordinator is told when the partition refused an append; the topic is none of its
    business.
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
