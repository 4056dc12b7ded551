"""One shard of any coordinator on this node: a pure core, its partition of an internal topic, its timers, and
the answers that wait until the records behind them are committed.

A shard exists from the election of this node as leader to the election of another. It runs on the event loop
and never waits while it carries out a command, so it needs no queue of commands: each is carried out before
the next is read. These are the steps, with the fields that hold a command and its effects meanwhile:

    refuse    `_log` checks that it would take records now. If not, `_core` does not see the command: if its
              records were rejected later, the whole shard would have to be loaded again. A client is answered
              with the reason; a command of the node stays in `_kept`, and a timer is started again, until the
              log takes records
    decide    `_core` decides the command into effects,
    replay    and replays their records at once: `_core` runs ahead of `_log`
    append    `_log` gathers the records of a turn of the loop into one batch, appended when the turn ends
    commit    `_log` holds the answers until the high watermark has passed the records that they depend on
    reply     `answer` gives them, in the order in which they were decided. An answer that depends on no
              records and shows no uncommitted state is given before `handle` returns
    timers    `_timers` has the timers of all shards by name, `_timer_keys` the names of this shard's. They
              start and stop at once, in the order of the effects and not with the commit, and come back as
              commands

An append that fails, or a bug in the core, ends the shard (`_drop`): all waiting requests are answered, and
`_failed` loads the partition again. When the leadership ends, `close` does the same without the loading.
"""

import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from ottla.groupcoord.coordinator_effects import Append, CancelTimer, Refuse, Reply, StartTimer, TimerKey
from ottla.groupcoord.log_scan import Unreadable
from ottla.groupcoord.offsets.offset_commands import Producer
from ottla.groupcoord.request_token import Token
from ottla.logstore.compression import Compression
from ottla.logstore.verification import Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.node.clock import Clock
from ottla.node.coordinators.coordinator_log import CoordinatorLog, Row, coordinator_error
from ottla.node.coordinators.shard_loader import LoadEndedError, ShardLoader, log_left_out
from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager

# The pause before a command of a timer or of the node is tried again, while too few replicas are in sync.
WRITE_AGAIN_MS = 1_000
_KEPT_KEY = TimerKey("kept")

log = logging.getLogger(__name__)

C_contra = TypeVar("C_contra", contravariant=True)
E_co = TypeVar("E_co", covariant=True)


class Core(Protocol[C_contra, E_co]):
    """The pure decisions of a coordinator: it turns commands into effects, and replays its own records."""

    def start(self, now_ms: int) -> Sequence[E_co]: ...
    def handle(self, command: C_contra, now_ms: int) -> Sequence[E_co]: ...
    def stop(self, error: ErrorCode) -> Sequence[E_co]: ...


class InTransaction(Protocol):
    """A command that writes in a producer's transaction."""

    @property
    def producer(self) -> Producer: ...
    @property
    def guard(self) -> Guard | None: ...


K = TypeVar("K", bound=Core[Any, Any])
C = TypeVar("C")  # commands
A = TypeVar("A")  # answers; KafkaError is one of them


class Loaded(NamedTuple, Generic[K, C]):
    """A core that was loaded from its log."""

    core: K
    unreadable: Unreadable
    commands: Sequence[C] = ()  # to carry out first


def _nothing(_: object, __: object) -> None:
    return None


def _no_effects(_: object, __: object) -> Sequence[Any]:
    return ()


def _must_be_answered(command: object) -> Hashable:
    raise AssertionError(f"{command} has no answer, so it must be kept")


def _later(_: C, later: C) -> C:
    return later


def _as_it_is(command: C) -> C:
    return command


def _no_commands() -> Sequence[Any]:
    return ()


def _no_other_effects(_: object, effect: object) -> None:
    raise AssertionError(f"{effect} is not an effect of this coordinator")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardParts(Generic[K, C, A]):
    """The functions and settings that a coordinator adds to the runtime for one of its shards."""

    new_core: Callable[[], K]  # makes the core of a partition without records
    load: Callable[[ShardLoader, Partition, Callable[[], bool]], Awaitable[Loaded[K, C]]]
    rows: Callable[[K, Sequence[Any]], Sequence[Row]]  # encodes the records of an `Append`
    max_batch_bytes: int
    moved: str  # the message for waiting requests when another node leads
    # Types of commands that lead to no records, and are carried out even while the log takes none.
    read_only: frozenset[type] = frozenset()
    in_transaction: frozenset[type] = frozenset()  # types of commands that are `InTransaction`
    may_linger: bool = False  # records that no client waits for may wait for others, to share a batch
    # Returns the key under which a command without an answer is kept until the shard is loaded and its log
    # takes records; None if it is not kept, since it will come again. `merged` makes one of two commands with
    # the same key.
    keep_as: Callable[[C], Hashable] = _must_be_answered
    merged: Callable[[C, C], C] = _later
    # Changes a command that a loaded shard keeps, since others may be carried out before it.
    put_off: Callable[[C], C] = _as_it_is
    when_refused: Callable[[K, C], Sequence[Any]] = _no_effects  # returns the effects of a rejected request
    after_load: Callable[[], Sequence[C]] = _no_commands  # returns commands for changes during the load
    # Carries out an effect that only this coordinator has.
    carry_out: Callable[["CoordinatorShard[K, C, A]", Any], None] = _no_other_effects
    started: Callable[["CoordinatorShard[K, C, A]", K], None] = _nothing  # is called before the first command
    # Is called when the shard is closed, even before it was loaded.
    stopped: Callable[["CoordinatorShard[K, C, A]", KafkaError], None] = _nothing


class CoordinatorShard(Generic[K, C, A]):
    """A pure core with its partition, its timers and its waiting answers."""

    def __init__(
        self,
        *,
        partition: Partition,
        parts: ShardParts[K, C, A],
        replicas: ReplicaManager,
        timers: TimerQueue,
        clock: Clock,
        commit_timeout_ms: int,
        compression: Compression,
        answer: Callable[[Token, A | KafkaError], None],
        failed: Callable[["CoordinatorShard[K, C, A]"], None],
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.is_closed = False
        self.answer = answer
        self._parts = parts
        self._core: K | None = None
        self._timers = timers
        self._timer_keys: set[TimerKey] = set()
        self._kept: dict[Hashable, C] = {}
        self._clock = clock
        self._failed = failed
        self._new_log = partial(
            CoordinatorLog[A],
            partition=partition,
            replicas=replicas,
            clock=clock,
            commit_timeout_ms=commit_timeout_ms,
            compression=compression,
            max_batch_bytes=parts.max_batch_bytes,
            answer=answer,
            failed=self._drop,
        )
        self._log: CoordinatorLog[A] | None = None

    @property
    def is_loaded(self) -> bool:
        return self._core is not None

    @property
    def is_open(self) -> bool:
        """Return True if commands can be carried out: the shard is loaded and not closed."""
        return self._core is not None and not self.is_closed

    @property
    def coordinator(self) -> K | None:
        """The core, None until the shard is loaded; its state is for reading only."""
        return self._core

    @property
    def log(self) -> CoordinatorLog[A]:
        """The log through which this shard appends to its partition; the shard must be loaded."""
        assert self._log is not None
        return self._log

    # ---- loading -------------------------------------------------------------------------------------

    def load_if_empty(self) -> bool:
        """Start at once and return True if the partition has no records, as when it is new."""
        log_ = self.partition.log
        if log_.log_end_offset > log_.log_start_offset:
            return False
        self._start(self._parts.new_core())
        return True

    async def load(self, loader: ShardLoader) -> None:
        """Replay the partition and start; until then requests fail with COORDINATOR_LOAD_IN_PROGRESS.

        A shard that is closed meanwhile is not started. Raises KafkaError if the log cannot be read.
        """
        try:
            loaded = await self._parts.load(loader, self.partition, lambda: self.is_closed)
        except LoadEndedError:
            return
        log_left_out(self.partition, loaded.unreadable)
        if self.is_closed:
            return
        self._start(loaded.core)
        self._handle_each(loaded.commands)
        self._handle_kept()
        self._handle_each(self._parts.after_load())

    def _start(self, core: K) -> None:
        self._core, self._log = core, self._new_log()
        self._parts.started(self, core)
        self.carry_out(core.start(self._clock.now_ms()))

    # ---- commands ------------------------------------------------------------------------------------

    def handle(self, command: C) -> None:
        """Carry out a command. The `answer` callback gets its answer, perhaps at once."""
        refused = self._refusal(command)
        if refused is None:
            self._decide(command)
        else:
            self._keep_or_reject(command, refused)

    def send(self, command: C) -> None:
        """Carry out a command of the node, which has no answer, as soon as the shard is loaded."""
        if self.is_open:
            self.handle(command)
        elif not self.is_closed:
            self._keep(command)

    def _refusal(self, command: C) -> KafkaError | None:
        """Return the reason why the log would not take the records of a command, None if it would."""
        kind = type(command)
        if kind in self._parts.read_only:
            return None
        assert self._log is not None
        try:
            if kind in self._parts.in_transaction:
                writes = cast(InTransaction, command)
                self._log.check(writes.producer, writes.guard)
            else:
                self._log.check()
        except KafkaError as error:
            return kept(error)
        return None

    def _decide(self, command: C) -> None:
        assert self._core is not None
        is_done = False
        try:
            self.carry_out(self._core.handle(command, self._clock.now_ms()))
            is_done = True
        finally:
            if not is_done:
                # A bug of ours, which is reported further up. The state of the core can no longer be trusted.
                log.error("%s: %r failed.", self.partition.topic_partition, command)
                self.close(ErrorCode.NOT_COORDINATOR)
                self._failed(self)

    def _keep_or_reject(self, command: C, refused: KafkaError) -> None:
        token = getattr(command, "token", None)
        if token is None:
            self._keep(command)
            return
        assert self._core is not None
        self.carry_out(self._parts.when_refused(self._core, command))
        self.answer(token, refused)

    def _keep(self, command: C) -> None:
        key = self._parts.keep_as(command)
        if key is None:
            return
        if self.is_loaded:
            command = self._parts.put_off(command)
        earlier = self._kept.get(key)
        self._kept[key] = command if earlier is None else self._parts.merged(earlier, command)
        if self.is_loaded and _KEPT_KEY not in self._timer_keys:
            self._timer_keys.add(_KEPT_KEY)
            self._timers.start((self, _KEPT_KEY), WRITE_AGAIN_MS, self._handle_kept)

    def _handle_kept(self) -> None:
        self._timer_keys.discard(_KEPT_KEY)
        kept, self._kept = self._kept, {}
        self._handle_each(list(kept.values()))

    def _handle_each(self, commands: Sequence[C]) -> None:
        for command in commands:
            if not self.is_closed:
                self.handle(command)

    # ---- effects -------------------------------------------------------------------------------------

    def carry_out(self, effects: Sequence[Any]) -> None:
        """Carry out the effects that the core decided, in this order."""
        assert self._core is not None and self._log is not None
        has_appended = False
        for position, effect in enumerate(effects):
            match effect:
                case Append(records, producer, guard):
                    try:
                        rows = self._parts.rows(self._core, records)
                        self._log.append(rows, producer, guard, may_linger=self._parts.may_linger)
                    except KafkaError as error:
                        self._drop(error, effects[position + 1 :])
                        return
                    has_appended = True
                case Reply(token, result, shows_state):
                    if has_appended or shows_state:
                        self._log.answer_when_committed(token, result)
                    else:
                        self.answer(token, result)
                case Refuse(token, error_code, detail):
                    if has_appended:
                        self._log.answer_when_committed(token, KafkaError(error_code, detail))
                    else:
                        self.answer(token, KafkaError(error_code, detail))
                case StartTimer(key, delay_ms, command):
                    self._start_timer(key, delay_ms, command)
                case CancelTimer(key):
                    self._timer_keys.discard(key)
                    self._timers.cancel((self, key))
                case _:
                    self._parts.carry_out(self, effect)

    def _start_timer(self, key: TimerKey, delay_ms: int, command: C) -> None:
        self._timer_keys.add(key)
        self._timers.start((self, key), delay_ms, partial(self._fire, key, command))

    def _fire(self, key: TimerKey, command: C) -> None:
        self._timer_keys.discard(key)
        if self.is_closed:
            return
        if self._refusal(command) is None:
            self._decide(command)
        else:
            # A member whose session has expired stays in its group until the record of it can be written.
            self._start_timer(key, WRITE_AGAIN_MS, command)

    # ---- the end -------------------------------------------------------------------------------------

    def close(self, error: ErrorCode, *, not_appended: KafkaError | None = None) -> None:
        """End this shard: answer all waiting requests with `error`, and cancel its timers.

        Requests whose records were not appended are answered with `not_appended`, if it is given.
        """
        if self.is_closed:
            return
        self.is_closed = True
        for key in self._timer_keys:
            self._timers.cancel((self, key))
        self._timer_keys.clear()
        self._kept.clear()
        moved = KafkaError(error, self._parts.moved)
        if self._core is not None and self._log is not None:
            self._log.close(moved, not_appended=not_appended or moved)
            for effect in self._core.stop(error):
                if isinstance(effect, Refuse):  # the others cancel timers
                    self.answer(effect.token, KafkaError(effect.error, effect.detail))
        self._parts.stopped(self, moved)

    def _drop(self, error: KafkaError, effects: Sequence[Any] = ()) -> None:
        """End the shard and load it again, since the core has records that the log will not have."""
        if self.is_closed:
            return
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            log.warning("Records could not be appended to %s: %s", self.partition.topic_partition, error)
        answer = coordinator_error(error)
        for effect in effects:
            token = getattr(effect, "token", None)
            if token is not None:
                self.answer(token, answer)
        self.close(ErrorCode.NOT_COORDINATOR, not_appended=answer)
        self._failed(self)
