"""One shard of the group coordinator on this node: a pure `Coordinator`, its partition of
`__consumer_offsets`, its timers, and the answers that wait until what they tell is committed.

All of it happens on the event loop and nothing here waits while a command is carried out, so commands need no
inbox: each is decided, appended and answered before the next one is looked at.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from groupcoord.commands import Command
from groupcoord.coordinator import Coordinator
from groupcoord.effects import Append, CancelTimer, Effect, Refuse, Reply, Result, StartTimer, TimerKey
from groupcoord.record_codec import encode_key, encode_value
from groupcoord.request_token import Token
from groupcoord.shard import Shard
from logstore.compression import Compression
from logstore.errors import ErrorCode, KafkaError
from logstore.partition_log import AppendOrigin
from logstore.record import build_batch
from node.clock import Clock
from node.replica.delayed_produce import Place
from node.replica.partition import Partition
from node.replica.replica_manager import ReplicaManager
from node.runtime.group_loader import GroupLoader, LoadEndedError
from node.runtime.timer_queue import TimerQueue

PRODUCE_VERSION = 13  # as which version of Produce the coordinator's own appends are judged

log = logging.getLogger(__name__)

Answer = Result | KafkaError


class GroupShard:
    """A shard from the election of this node to the election of another."""

    def __init__(
        self,
        *,
        partition: Partition,
        replicas: ReplicaManager,
        new_shard: Callable[[], Shard],
        timers: TimerQueue,
        clock: Clock,
        commit_timeout_ms: int,
        compression: Compression,
        answer: Callable[[Token, Answer], None],
        failed: Callable[["GroupShard"], None],
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.is_closed = False
        self._replicas = replicas
        self._new_shard = new_shard
        self._coordinator: Coordinator | None = None
        self._timers = timers
        self._timer_keys: set[TimerKey] = set()
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._compression = compression
        self._answer = answer
        self._failed = failed
        self._append_end_offset = 0  # after the shard's last append, or what it was loaded from
        # Answers that wait for the high watermark to reach an offset, in the order of the offsets.
        self._uncommitted: deque[tuple[int, Token, Answer]] = deque()

    @property
    def is_loaded(self) -> bool:
        return self._coordinator is not None

    @property
    def coordinator(self) -> Coordinator | None:
        """The core, None while the shard loads; for tools and tests."""
        return self._coordinator

    # ---- loading -------------------------------------------------------------------------------------

    def load_if_empty(self) -> bool:
        """A partition without records (it has just been created) needs no loading: start at once."""
        log_ = self.partition.log
        if log_.log_end_offset > log_.log_start_offset:
            return False
        self._start(Coordinator(self._new_shard()))
        return True

    async def load(self, loader: GroupLoader) -> None:
        """Have the partition replayed; until then requests are told to wait."""
        try:
            shard, unreadable = await loader.load(self.partition, self._new_shard, lambda: self.is_closed)
        except LoadEndedError:
            return
        for problem in unreadable.first:
            log.error("%s: a record is left out: %s", self.partition.topic_partition, problem)
        if unreadable.count > len(unreadable.first):
            log.error("%s: %d records are left out.", self.partition.topic_partition, unreadable.count)
        if not self.is_closed:
            self._start(Coordinator(shard))

    def _start(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        # What another reign wrote may still be lost, and must not be shown before it is committed.
        self._append_end_offset = self.partition.log.log_end_offset
        self._carry_out(coordinator.start(self._clock.now_ms()))

    # ---- commands ------------------------------------------------------------------------------------

    def handle(self, command: Command) -> None:
        """Carry out a command; its answer is given by the `answer` callback, perhaps at once."""
        assert self._coordinator is not None
        is_done = False
        try:
            self._carry_out(self._coordinator.handle(command, self._clock.now_ms()))
            is_done = True
        finally:
            if not is_done:
                # A bug of ours, which is reported further up. What the core holds cannot be trusted any more.
                log.error("%s: %r could not be carried out.", self.partition.topic_partition, command)
                self.close(ErrorCode.NOT_COORDINATOR)
                self._failed(self)

    def close(self, error: ErrorCode) -> None:
        """This shard ends here: all that wait are answered, no timer fires any more."""
        if self.is_closed:
            return
        self.is_closed = True
        for key in self._timer_keys:
            self._timers.cancel((self, key))
        self._timer_keys.clear()
        waiting, self._uncommitted = self._uncommitted, deque()
        for _, token, _ in waiting:
            self._answer(token, KafkaError(error, "the coordinator of this group has moved"))
        if self._coordinator is not None:
            for effect in self._coordinator.stop(error):
                assert isinstance(effect, Refuse)
                self._answer(effect.token, KafkaError(effect.error, effect.detail))

    def _carry_out(self, effects: list[Effect]) -> None:
        has_appended = False
        for position, effect in enumerate(effects):
            match effect:
                case Append():
                    try:
                        self._append(effect)
                    except KafkaError as error:
                        self._drop(effects[position + 1 :], error)
                        return
                    has_appended = True
                case Reply(token, result, shows_state):
                    self._reply(token, result, waits=has_appended or shows_state)
                case Refuse(token, error_code, detail):
                    self._answer(token, KafkaError(error_code, detail))
                case StartTimer(key, delay_ms, command):
                    self._timer_keys.add(key)
                    self._timers.start((self, key), delay_ms, partial(self._fire, key, command))
                case CancelTimer(key):
                    self._timer_keys.discard(key)
                    self._timers.cancel((self, key))

    def _fire(self, key: TimerKey, command: Command) -> None:
        self._timer_keys.discard(key)
        if not self.is_closed:
            self.handle(command)

    # ---- appending -----------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        if self.partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this shard belongs to an older leader epoch")
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [(encode_key(record), encode_value(record), now_ms, ()) for record in effect.records],
            compression=self._compression,
        )
        result = self.partition.append_as_leader(
            batch,
            required_acks=-1,
            now_ms=now_ms,
            produce_version=PRODUCE_VERSION,
            origin=AppendOrigin.COORDINATOR,
        )
        self._append_end_offset = result.last_offset + 1

    def _reply(self, token: Token, result: Result, *, waits: bool) -> None:
        if not waits or self.partition.log.high_watermark >= self._append_end_offset:
            self._answer(token, result)
            return
        end_offset = self._append_end_offset
        is_watched = bool(self._uncommitted) and self._uncommitted[-1][0] == end_offset
        self._uncommitted.append((end_offset, token, result))
        if not is_watched:
            place = Place(end_offset, self.partition.leader_epoch)
            future = self._replicas.delay_produce({self.partition: place}, self._commit_timeout_ms)
            future.add_done_callback(lambda done: self._settle(end_offset, done))

    def _settle(self, end_offset: int, done: "asyncio.Future[Mapping[Partition, ErrorCode]]") -> None:
        """The append up to `end_offset` is committed, or it will not be in time."""
        if self.is_closed:
            return
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if done.cancelled() else done.result()[self.partition]
        while self._uncommitted and self._uncommitted[0][0] <= end_offset:
            _, token, answer = self._uncommitted.popleft()
            self._answer(token, answer if code is ErrorCode.NONE else coordinator_error(KafkaError(code)))
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.close(ErrorCode.NOT_COORDINATOR)
            self._failed(self)

    def _drop(self, effects: list[Effect], error: KafkaError) -> None:
        """An append failed: what the core holds is not what the log holds. Answer all, and load anew."""
        log.warning("%s could not be appended to: %s", self.partition.topic_partition, error)
        told = coordinator_error(error)
        for effect in effects:
            if isinstance(effect, Reply | Refuse):
                self._answer(effect.token, told)
        self.close(ErrorCode.NOT_COORDINATOR)
        self._failed(self)


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
