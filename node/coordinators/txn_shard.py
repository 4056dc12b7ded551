"""One shard of the transaction coordinator on this node: a pure `TransactionCoordinator`, its partition of
`__transaction_state`, its timers, and what waits until a decision is committed: answers and markers.

As with groups, nothing here waits while a command is carried out. Two effects come back as commands later:
a producer id that the controller had to give, and the leaders' word that they have a marker.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, get_args

from ottla.groupcoord.log_scan import Unreadable
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.transactions.transaction_commands import (
    AbortTimedOut,
    Command,
    LevelChanged,
    MarkersWritten,
    NeedsIdCommand,
    ReadOnlyCommand,
    TimerCommand,
)
from ottla.groupcoord.transactions.transaction_coordinator import TransactionCoordinator
from ottla.groupcoord.transactions.transaction_effects import (
    Append,
    CancelTimer,
    CloseAsker,
    Effect,
    MarkerJob,
    NeedProducerId,
    Refuse,
    Reply,
    SendMarkers,
    StartTimer,
    TimerKey,
)
from ottla.groupcoord.transactions.transaction_records import TransactionRecord, encode_key, encode_value
from ottla.groupcoord.transactions.transaction_results import Result
from ottla.groupcoord.transactions.transaction_scan import TransactionScan, load_shard
from ottla.groupcoord.transactions.transaction_shard import Shard
from ottla.logstore.compression import Compression
from ottla.logstore.errors import ErrorCode, KafkaError
from ottla.node.clock import Clock
from ottla.node.coordinators.coordinator_log import CoordinatorLog, Row, coordinator_error
from ottla.node.coordinators.shard_loader import LoadEndedError, Pause, ShardLoader, log_left_out
from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager

# Until what the node itself brings is tried again, while too few replicas are in sync.
WRITE_AGAIN_MS = 1_000
_AGAIN_KEY = "again"

_READ_ONLY = frozenset(get_args(ReadOnlyCommand))

# `CloseAsker` is an answer, too: none, over a connection that is not to be used any more.
TxnAnswer: TypeAlias = Result | CloseAsker

log = logging.getLogger(__name__)


class TxnShard:
    """A shard from the election of this node to the election of another."""

    def __init__(
        self,
        *,
        partition: Partition,
        replicas: ReplicaManager,
        new_shard: Callable[[int], Shard],
        level: Callable[[], int],
        timers: TimerQueue,
        clock: Clock,
        commit_timeout_ms: int,
        answer: Callable[[Token, TxnAnswer | KafkaError], None],
        failed: Callable[["TxnShard"], None],
        need_id: Callable[[Callable[[int | KafkaError], None]], None],
        send_markers: Callable[[MarkerJob], None],
        drop_markers: Callable[[], None],
    ) -> None:
        """`new_shard` makes an empty one for a coordinator epoch; `level` is that of transaction.version now.
        `need_id` calls back with a producer id, or with why there is none.
        """
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.is_closed = False
        self._new_shard = new_shard
        self._level = level
        self._coordinator: TransactionCoordinator | None = None
        self._timers = timers
        self._timer_keys: set[TimerKey | str] = set()
        self._clock = clock
        self._answer = answer
        self._failed = failed
        self._need_id = need_id
        self._needing: dict[Token, None] = {}  # requests that wait for a producer id
        self._again: list[MarkersWritten] = []  # what the log would not take yet
        self._send_markers = send_markers
        self._drop_markers = drop_markers
        self._new_log = partial(
            CoordinatorLog[TxnAnswer],
            partition=partition,
            replicas=replicas,
            clock=clock,
            commit_timeout_ms=commit_timeout_ms,
            compression=Compression.NONE,
            answer=answer,
            failed=self._drop,
        )
        self._log: CoordinatorLog[TxnAnswer] | None = None

    @property
    def is_loaded(self) -> bool:
        return self._coordinator is not None

    @property
    def coordinator(self) -> TransactionCoordinator | None:
        """The core, None while the shard loads; for tools and tests."""
        return self._coordinator

    # ---- loading -------------------------------------------------------------------------------------

    def load_if_empty(self) -> bool:
        """A partition without records (it has just been created) needs no loading: start at once."""
        log_ = self.partition.log
        if log_.log_end_offset > log_.log_start_offset:
            return False
        self._start(self._new_shard(self.leader_epoch))
        return True

    async def load(self, loader: ShardLoader) -> None:
        """Have the partition replayed; until then requests are told to wait."""

        def make(scan: TransactionScan, pause: Pause) -> tuple[Shard, Unreadable]:
            scanned = scan.finish()
            shard = load_shard(scanned, self._new_shard(self.leader_epoch), pause=pause)
            return shard, scanned.unreadable

        try:
            shard, unreadable = await loader.load(
                self.partition, new_scan=TransactionScan, make=make, is_closed=lambda: self.is_closed
            )
        except LoadEndedError:
            return
        log_left_out(self.partition, unreadable)
        if not self.is_closed:
            self._start(shard)

    def _start(self, shard: Shard) -> None:
        shard.level = self._level()  # which may have changed while it was loaded
        self._coordinator = TransactionCoordinator(shard)
        self._log = self._new_log(max_batch_bytes=shard.config.max_batch_bytes)
        self._carry_out(self._coordinator.start(self._clock.now_ms()))

    # ---- commands ------------------------------------------------------------------------------------

    def handle(self, command: Command) -> None:
        """Carry out a command; its answer is given by the `answer` callback, perhaps at once."""
        assert self._coordinator is not None
        refused = self._refusal(command)
        if refused is not None:
            self._put_off(command, refused)
            return
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

    def adopt_level(self) -> None:
        """The level of transaction.version is perhaps another one."""
        coordinator = self._coordinator
        if coordinator is not None and not self.is_closed and coordinator.shard.level != self._level():
            self.handle(LevelChanged(level=self._level()))

    def _refusal(self, command: Command) -> KafkaError | None:
        """Why the log would not take the records that a command may lead to.

        The core does not hear of it then, since it would have to be loaded again if its records were refused.
        """
        assert self._log is not None
        if type(command) in _READ_ONLY:
            return None
        try:
            self._log.check()
        except KafkaError as error:
            return error
        return None

    def _put_off(self, command: Command, refused: KafkaError) -> None:
        if isinstance(command, MarkersWritten):
            self._again.append(command)
            self._timer_keys.add(_AGAIN_KEY)
            self._timers.start((self, _AGAIN_KEY), WRITE_AGAIN_MS, self._try_again)
            return
        token = getattr(command, "token", None)
        if token is not None:
            self._answer(token, refused)
        else:
            # The sweep that found it finds it again.
            assert isinstance(command, AbortTimedOut), command

    def _try_again(self) -> None:
        self._timer_keys.discard(_AGAIN_KEY)
        again, self._again = self._again, []
        for command in again:
            if not self.is_closed:
                self.handle(command)

    def close(self, error: ErrorCode, *, not_appended: KafkaError | None = None) -> None:
        """This shard ends here: all that wait are answered, no timer fires any more."""
        if self.is_closed:
            return
        self.is_closed = True
        self._drop_markers()
        for key in self._timer_keys:
            self._timers.cancel((self, key))
        self._timer_keys.clear()
        if self._coordinator is None or self._log is None:
            return
        moved = KafkaError(error, "the coordinator of this transactional id has moved")
        self._log.close(moved, not_appended=not_appended or moved)
        needing, self._needing = self._needing, {}
        for token in needing:
            self._answer(token, moved)
        for effect in self._coordinator.stop(error):
            if isinstance(effect, Refuse):  # all others are about timers
                self._answer(effect.token, KafkaError(effect.error, effect.detail))

    def _carry_out(self, effects: list[Effect]) -> None:
        assert self._log is not None and self._coordinator is not None
        has_appended = False
        for position, effect in enumerate(effects):
            match effect:
                case Append(records):
                    level = self._coordinator.shard.level
                    try:
                        # That a transaction is complete goes with the beginning of the next one.
                        self._log.append([_row(record, level) for record in records], may_linger=True)
                    except KafkaError as error:
                        self._drop(error, effects[position + 1 :])
                        return
                    has_appended = True
                case Reply(token, result, shows_state):
                    tell = self._log.answer_when_committed if has_appended or shows_state else self._answer
                    tell(token, result)
                case Refuse(token, error_code, detail):
                    tell = self._log.answer_when_committed if has_appended else self._answer
                    tell(token, KafkaError(error_code, detail))
                case CloseAsker(token):
                    self._answer(token, effect)
                case SendMarkers(job):
                    self._log.when_committed(partial(self._decided, job))
                case NeedProducerId(command):
                    self._ask_for_id(command)
                case StartTimer(key, delay_ms, timed):
                    self._start_timer(key, delay_ms, timed)
                case CancelTimer(key):
                    self._timer_keys.discard(key)
                    self._timers.cancel((self, key))

    def _decided(self, job: MarkerJob, error: KafkaError | None) -> None:
        """The decision over a transaction is safe; with an error it never will be, by this shard."""
        if error is None and not self.is_closed:
            self._send_markers(job)

    def _ask_for_id(self, command: NeedsIdCommand) -> None:
        token = getattr(command, "token", None)
        if token is not None:
            self._needing[token] = None
        self._need_id(partial(self._go_on_with_id, command, token))

    def _go_on_with_id(self, command: NeedsIdCommand, token: Token | None, outcome: int | KafkaError) -> None:
        if self.is_closed:
            return
        if token is not None:
            del self._needing[token]
        if not isinstance(outcome, KafkaError):
            self.handle(replace(command, fresh_id=outcome))
        elif token is not None:
            self._answer(token, outcome)

    def _start_timer(self, key: TimerKey, delay_ms: int, command: TimerCommand) -> None:
        self._timer_keys.add(key)
        self._timers.start((self, key), delay_ms, partial(self._fire, key, command))

    def _fire(self, key: TimerKey, command: TimerCommand) -> None:
        self._timer_keys.discard(key)
        if self.is_closed:
            return
        if self._refusal(command) is None:
            self.handle(command)
        else:
            self._start_timer(key, WRITE_AGAIN_MS, command)

    def _drop(self, error: KafkaError, effects: Sequence[Effect] = ()) -> None:
        """The log does not hold what the core holds, or never will: answer all, and load anew."""
        if self.is_closed:
            return
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            log.warning("%s could not be appended to: %s", self.partition.topic_partition, error)
        told = coordinator_error(error)
        for effect in effects:
            match effect:
                case Reply(token) | Refuse(token) | CloseAsker(token):
                    self._answer(token, told)
                case NeedProducerId(command):
                    waiting = getattr(command, "token", None)
                    if waiting is not None:
                        self._answer(waiting, told)
                case Append() | SendMarkers() | StartTimer() | CancelTimer():
                    pass
        self.close(ErrorCode.NOT_COORDINATOR, not_appended=told)
        self._failed(self)


def _row(record: TransactionRecord, level: int) -> Row:
    value = record.value
    return encode_key(record.transactional_id), None if value is None else encode_value(value, level)
