"""One shard of the group coordinator on this node: a pure `Coordinator`, its partition of
`__consumer_offsets`, its timers, and the answers that wait until what they tell is committed.

All of it happens on the event loop and nothing here waits while a command is carried out, so commands need no
inbox: each is decided and carried out before the next one is looked at.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from ottla.groupcoord.commands import Command, ReadOnlyCommand
from ottla.groupcoord.consumer.aside import MAX_REGEX_CPU_S, AsideResult, AsideWork, ResolveRegexes
from ottla.groupcoord.consumer.consumer_commands import (
    ConsumerGroupHeartbeat,
    RegexesResolved,
    TargetComputed,
)
from ottla.groupcoord.consumer.consumer_regexes import is_wanted
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.effects import (
    Append,
    CancelTimer,
    Effect,
    Follow,
    Noted,
    Refuse,
    Reply,
    Result,
    RunAside,
    StartTimer,
    TimerKey,
)
from ottla.groupcoord.offsets.offset_commands import (
    EndTransaction,
    ForgetOffsets,
    ForgetTopics,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_values import CommittedOffsets, pack_key_head, pack_key_tails
from ottla.groupcoord.record_codec import AppendedRecord, encode_key, encode_value, opened
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.shard import Shard
from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.groupcoord.timer_commands import EndHold
from ottla.logstore.compression import Compression
from ottla.logstore.errors import ErrorCode, KafkaError
from ottla.logstore.partition_log import AppendResult
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.node.clock import Clock
from ottla.node.coordinators.coordinator_log import AlikeRows, CoordinatorLog, Row, coordinator_error
from ottla.node.coordinators.group_loader import load_group_shard
from ottla.node.coordinators.shard_loader import LoadEndedError, ShardLoader, log_left_out
from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.work.aside_lane import AsideLane

# Until what a timer brought is tried again, while too few replicas are in sync.
WRITE_AGAIN_MS = 1_000

_READ_ONLY = frozenset(get_args(ReadOnlyCommand))

Answer = Result | KafkaError

log = logging.getLogger(__name__)


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
        aside: AsideLane,
        members: NodeBytes,
        offsets: NodeBytes,
    ) -> None:
        """`members` and `offsets` count those of all shards of the node."""
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.is_closed = False
        self._new_shard = new_shard
        self._coordinator: Coordinator | None = None
        self._timers = timers
        self._timer_keys: set[TimerKey] = set()
        self._clock = clock
        self._answer = answer
        self._failed = failed
        self._aside = aside
        self._members = members
        self._offsets = offsets
        self._forgotten_topics: frozenset[str] = frozenset()  # whose offsets could not be removed yet
        self._new_log = partial(
            CoordinatorLog[Result],
            partition=partition,
            replicas=replicas,
            clock=clock,
            commit_timeout_ms=commit_timeout_ms,
            compression=compression,
            answer=answer,
            failed=self._drop,
        )
        self._log: CoordinatorLog[Result] | None = None

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

    async def load(self, loader: ShardLoader, topic_id_of: Callable[[str], bytes | None]) -> None:
        """Have the partition replayed; until then requests are told to wait."""
        try:
            loaded = await load_group_shard(
                loader,
                self.partition,
                make_shard=self._new_shard,
                topic_id_of=topic_id_of,
                is_closed=lambda: self.is_closed,
            )
        except LoadEndedError:
            return
        log_left_out(self.partition, loaded.unreadable)
        if self.is_closed:
            return
        self._start(Coordinator(loaded.shard))
        if loaded.stale:
            self.handle(ForgetOffsets(offsets=loaded.stale))
        if self._forgotten_topics and not self.is_closed:
            self.forget_topics(frozenset())

    def _start(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        coordinator.shard.member_bytes.attach(self._members)
        coordinator.shard.offset_bytes.attach(self._offsets)
        self._log = self._new_log(max_batch_bytes=coordinator.shard.config.max_batch_bytes)
        self._carry_out(coordinator.start(self._clock.now_ms()))

    # ---- commands ------------------------------------------------------------------------------------

    def handle(self, command: Command) -> None:
        """Carry out a command; its answer is given by the `answer` callback, perhaps at once."""
        assert self._coordinator is not None
        refused = self._refusal(command)
        if refused is not None:
            self._put_off(command, refused)
            return
        if isinstance(command, ForgetTopics):
            command = ForgetTopics(topics=command.topics | self._forgotten_topics)
            self._forgotten_topics = frozenset()
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

    def end_transaction(
        self,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
    ) -> AppendResult:
        """Append a marker and let the offsets of its transaction count, or forget them. What shows them waits
        until the marker is committed.
        """
        assert self._log is not None
        self._log.check()
        result = self._log.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_version=transaction_version,
        )
        if not result.duplicate:
            is_commit = marker.control_type is ControlType.COMMIT
            self.handle(EndTransaction(producer_id=producer_id, committed=is_commit))
        return result

    def release(self, command: EndHold) -> None:
        """A heartbeat cannot wait for news any longer."""
        if self.is_loaded and not self.is_closed:
            self.handle(command)

    def forget_topics(self, topics: frozenset[str]) -> None:
        """These topics were deleted: drop what was committed for them, as soon as that is possible."""
        if not self.is_loaded:
            self._forgotten_topics |= topics
        elif not self.is_closed:
            self.handle(ForgetTopics(topics=topics))

    def _refusal(self, command: Command) -> KafkaError | None:
        """Why the log would not take the records that a command may lead to.

        The core does not hear of it then, since it would have to be loaded again if its records were refused.
        """
        assert self._log is not None
        if type(command) in _READ_ONLY:
            return None
        try:
            if isinstance(command, TxnOffsetCommit):
                self._log.check(command.producer, command.guard)
            else:
                self._log.check()
        except KafkaError as error:
            return error
        return None

    def _put_off(self, command: Command, refused: KafkaError) -> None:
        if isinstance(command, ForgetTopics):
            self._forgotten_topics |= command.topics
            again = ForgetTopics(topics=self._forgotten_topics)
            self._start_timer(TimerKey("forget-topics"), WRITE_AGAIN_MS, again)
            return
        if isinstance(command, ForgetOffsets):
            self._start_timer(TimerKey("forget-offsets"), WRITE_AGAIN_MS, command)
            return
        if isinstance(command, RegexesResolved):
            self._start_timer(TimerKey("regexes", command.group_id), WRITE_AGAIN_MS, command)
            return
        if isinstance(command, TargetComputed):
            self._start_timer(TimerKey("target", command.group_id), WRITE_AGAIN_MS, command)
            return
        token = getattr(command, "token", None)
        assert token is not None, command
        if isinstance(command, ConsumerGroupHeartbeat) and self._coordinator is not None:
            self._carry_out(self._coordinator.sign_of_life(command))
        self._answer(token, refused)

    def close(self, error: ErrorCode, *, not_appended: KafkaError | None = None) -> None:
        """This shard ends here: all that wait are answered, no timer fires any more."""
        if self.is_closed:
            return
        self.is_closed = True
        for key in self._timer_keys:
            self._timers.cancel((self, key))
        self._timer_keys.clear()
        if self._coordinator is None or self._log is None:
            return
        moved = KafkaError(error, "the coordinator of this group has moved")
        self._log.close(moved, not_appended=not_appended or moved)
        for effect in self._coordinator.stop(error):
            assert isinstance(effect, Refuse)
            self._answer(effect.token, KafkaError(effect.error, effect.detail))
        self._coordinator.shard.member_bytes.detach()
        self._coordinator.shard.offset_bytes.detach()

    def _carry_out(self, effects: list[Effect]) -> None:
        assert self._log is not None
        has_appended = False
        for position, effect in enumerate(effects):
            match effect:
                case Append():
                    try:
                        self._log.append(_rows(effect.records), effect.producer, effect.guard)
                    except KafkaError as error:
                        self._drop(error, effects[position + 1 :])
                        return
                    has_appended = True
                case Reply(token, result, shows_state):
                    if has_appended or shows_state:
                        self._log.answer_when_committed(token, result)
                    else:
                        self._answer(token, result)
                case Refuse(token, error_code, detail):
                    self._answer(token, KafkaError(error_code, detail))
                case StartTimer(key, delay_ms, command):
                    self._start_timer(key, delay_ms, command)
                case CancelTimer(key):
                    self._timer_keys.discard(key)
                    self._timers.cancel((self, key))
                case RunAside(work):
                    self._aside.run(work, partial(self._is_wanted, work), partial(self._bring_back, work))
                case Follow() | Noted():
                    raise AssertionError(f"{effect} is the core's own business")

    def _is_wanted(self, work: AsideWork) -> bool:
        """Say whether work aside is worth its next slice."""
        if self.is_closed or self._coordinator is None:
            return False
        return not isinstance(work, ResolveRegexes) or is_wanted(self._coordinator.shard, work)

    def _bring_back(self, work: AsideWork, result: AsideResult | None) -> None:
        """Hand the result of work aside to the shard that asked, if that is still there."""
        if self.is_closed:
            return
        if result is None:
            assert isinstance(work, ResolveRegexes)  # nobody subscribes to them any more
            result = RegexesResolved(
                group_id=work.group_id, topics={}, version=work.topics.version, began_ms=work.began_ms
            )
        for regex in sorted(result.given_up) if isinstance(result, RegexesResolved) else ():
            log.warning(
                "The regular expression %.200r of group %r is given up: to match it with the names of topics "
                "takes more than %g s of a processor. It is tried again when it is due to be refreshed.",
                regex,
                result.group_id,
                MAX_REGEX_CPU_S,
            )
        self.handle(result)

    def _start_timer(self, key: TimerKey, delay_ms: int, command: Command) -> None:
        self._timer_keys.add(key)
        self._timers.start((self, key), delay_ms, partial(self._fire, key, command))

    def _fire(self, key: TimerKey, command: Command) -> None:
        self._timer_keys.discard(key)
        if self.is_closed:
            return
        if self._refusal(command) is None:
            self.handle(command)
        else:
            # A member whose time is over keeps its place until that can be written.
            self._start_timer(key, WRITE_AGAIN_MS, command)

    def _drop(self, error: KafkaError, effects: Sequence[Effect] = ()) -> None:
        """The log does not hold what the core holds, or never will: answer all, and load anew."""
        if self.is_closed:
            return
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            log.warning("%s could not be appended to: %s", self.partition.topic_partition, error)
        told = coordinator_error(error)
        for effect in effects:
            if isinstance(effect, Reply | Refuse):
                self._answer(effect.token, told)
        self.close(ErrorCode.NOT_COORDINATOR, not_appended=told)
        self._failed(self)


def _rows(records: Sequence[AppendedRecord]) -> list[Row]:
    rows: list[Row] = []
    for record in records:
        if isinstance(record, CommittedOffsets) and len(set(map(len, record.values))) == 1:
            key_head = pack_key_head(record.group_id, record.topic)
            rows.append(AlikeRows(key_head, pack_key_tails(record.partitions), record.values))
        else:
            rows += [(encode_key(each), encode_value(each)) for each in opened(record)]
    return rows
