"""What a shard appends to its partition of `__consumer_offsets`, and the answers that wait until it is there.

All that a shard appends in one turn of the event loop becomes one batch, so that a hundred commits that came
together cost one append and one wait. Each `Append` is in one batch, whole; one of a transaction is a batch
of its own. An answer leaves when everything that was appended before it is committed, in the order in which
the answers were given.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from groupcoord.effects import Append, Result
from groupcoord.offset_commands import Producer
from groupcoord.offset_values import CommittedOffsets, pack_key_head, pack_key_tails
from groupcoord.record_codec import AppendedRecord, encode_key, encode_value, opened, record_size_bytes
from groupcoord.request_token import Token
from logstore.compression import Compression
from logstore.errors import ErrorCode, KafkaError
from logstore.open_batch import OpenBatch
from logstore.partition_log import AppendOrigin
from logstore.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from node.clock import Clock
from node.replica.delayed_produce import Place
from node.replica.partition import Partition
from node.replica.replica_manager import ReplicaManager

PRODUCE_VERSION = 13  # as which version of Produce the coordinator's own appends are judged

Answer = Result | KafkaError


class GroupLog:
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
        answer: Callable[[Token, Answer], None],
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
        self._open: list[tuple[Token, Answer]] = []  # answers that wait for the open batch to be appended
        self._flushing: asyncio.Handle | None = None
        # Answers that wait for the high watermark to reach an offset, in the order of the offsets.
        self._uncommitted: deque[tuple[int, Token, Answer]] = deque()

    def check(self, producer: Producer | None = None) -> None:
        """Whether the partition would take an append now, in a transaction of `producer`; the error that
        clients are told if not.
        """
        if not self._partition.is_leader or self._partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "this shard belongs to an older leader epoch")
        if not self._partition.has_enough_replicas():
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas are in sync")
        if producer is not None:
            self._partition.log.check_producer_epoch(*producer)

    def append(self, effect: Append) -> None:
        """Add to the open batch. KafkaError if the one before had to be appended first, and could not be."""
        size = sum(map(record_size_bytes, effect.records))
        if self._batch.count and (effect.producer or self._batch_bytes + size > self._max_batch_bytes):
            self.flush()
        now_ms = self._clock.now_ms()
        for record in effect.records:
            self._add(record, now_ms)
        self._batch_bytes += size
        if effect.producer is not None:
            self.flush(effect.producer)
            return
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush_at_the_end_of_the_turn)

    def _add(self, record: AppendedRecord, now_ms: int) -> None:
        if isinstance(record, CommittedOffsets) and len(set(map(len, record.values))) == 1:
            key_head = pack_key_head(record.group_id, record.topic)
            self._batch.append_alike(key_head, pack_key_tails(record.partitions), record.values, now_ms)
            return
        for one in opened(record):
            self._batch.append(encode_key(one), encode_value(one), now_ms)

    def answer_when_committed(self, token: Token, answer: Answer) -> None:
        """Give an answer when all that was appended so far is committed, perhaps at once."""
        if self._batch.count:
            self._open.append((token, answer))
        else:
            self._wait_for_watermark([(token, answer)])

    def flush(self, producer: Producer | None = None) -> None:
        """Append the open batch, in the transaction of `producer`; KafkaError if that fails, which `close`
        has to follow.
        """
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self._batch.count:
            return
        if self._partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this shard belongs to an older leader epoch")
        result = self._partition.append_as_leader(
            self._batch.seal(
                compression=self._compression,
                producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
                producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
                is_transactional=producer is not None,
            ),
            required_acks=-1,
            now_ms=self._clock.now_ms(),
            produce_version=PRODUCE_VERSION,
            origin=AppendOrigin.COORDINATOR,
        )
        self._append_end_offset = result.last_offset + 1
        answers, self._open = self._open, []
        self._batch, self._batch_bytes = OpenBatch(), 0
        self._wait_for_watermark(answers)

    def close(self, error: KafkaError, *, not_appended: KafkaError) -> None:
        """The reign ends: whoever waits gets the error, or the other one if its batch was never appended."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        waiting = [(token, error) for _, token, _ in self._uncommitted]
        waiting += [(token, not_appended) for token, _ in self._open]
        self._uncommitted.clear()
        self._open, self._batch = [], OpenBatch()
        for token, told in waiting:
            self._answer(token, told)

    def _flush_at_the_end_of_the_turn(self) -> None:
        self._flushing = None
        try:
            self.flush()
        except KafkaError as error:
            self._failed(error)

    def _wait_for_watermark(self, answers: list[tuple[Token, Answer]]) -> None:
        end_offset = self._append_end_offset
        if self._partition.log.high_watermark >= end_offset:
            for token, answer in answers:
                self._answer(token, answer)
            return
        is_watched = bool(self._uncommitted) and self._uncommitted[-1][0] == end_offset
        self._uncommitted.extend((end_offset, token, answer) for token, answer in answers)
        if answers and not is_watched:
            place = Place(end_offset, self.leader_epoch)
            future = self._replicas.delay_produce({self._partition: place}, self._commit_timeout_ms)
            future.add_done_callback(lambda done: self._settle(end_offset, done))

    def _settle(self, end_offset: int, done: "asyncio.Future[Mapping[Partition, ErrorCode]]") -> None:
        """The append up to `end_offset` is committed, or it will not be in time."""
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if done.cancelled() else done.result()[self._partition]
        while self._uncommitted and self._uncommitted[0][0] <= end_offset:
            _, token, answer = self._uncommitted.popleft()
            self._answer(token, answer if code is ErrorCode.NONE else coordinator_error(KafkaError(code)))
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._failed(KafkaError(code))


def coordinator_error(error: KafkaError) -> KafkaError:
    """What a client of the group is told when the partition refused an append; the topic is none of its
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
