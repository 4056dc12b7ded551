"""A shard of the share coordinator with a virtual clock, a log of bytes, and timers.

Timers fire as a test advances the clock. After every command the invariants hold, and the log read back gives
the state of the live shard. Appends are committed at once unless `commits` is off; then answers wait for
`commit()`, and `crash()` loses the records that are not committed.
"""

import itertools
from collections.abc import Sequence

from ottla.groupcoord.coordinator_effects import Append, Refuse, Reply, StartTimer, TimerKey
from ottla.groupcoord.share_state.share_coordinator import ShareCoordinator
from ottla.groupcoord.share_state.share_state import ShareState
from ottla.groupcoord.share_state.share_state_commands import Command, command_of
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.share_state.share_state_effects import Effect, PruneLog
from ottla.groupcoord.share_state.share_state_records import (
    ShareStateRecord,
    decode_record,
    encode_record,
)
from ottla.groupcoord.share_state.share_state_scan import ShareStateScan
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.share_state.share_state_words import (
    NOT_GIVEN,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateAnswer,
    StateBatch,
    StateRead,
    StateRequest,
    StateResult,
    StateSummary,
    WriteState,
)
from ottla.logstore.record import build_batch

NOW_MS = 1_700_000_000_000
PARTITIONS = 2


def topic_id(number: int) -> bytes:
    return (0x100).to_bytes(8) + number.to_bytes(8)


def key_of(group: str = "g", topic: int = 1, partition: int = 0) -> SharePartitionKey:
    return SharePartitionKey(group, topic_id(topic), partition)


KEY = key_of()


def batch(first: int, last: int, state: int = 0, count: int = 1) -> StateBatch:
    return StateBatch(first, last, state, count)


def new_shard(config: ShareCoordinatorConfig | None = None, gone: Sequence[bytes] = ()) -> ShareStateShard:
    """Return an empty shard, for which topics 1 and 2 have two partitions."""

    def partitions_of(topic: bytes) -> int:
        return PARTITIONS if topic in (topic_id(1), topic_id(2)) and topic not in gone else 0

    return ShareStateShard(config or ShareCoordinatorConfig(), partitions_of=partitions_of)


class ShareStateWorld:
    def __init__(self, config: ShareCoordinatorConfig | None = None, *, commits: bool = True) -> None:
        self.config = config or ShareCoordinatorConfig()
        self.commits = commits
        self.now_ms = NOW_MS
        self.gone: list[bytes] = []
        self.rows: list[tuple[bytes, bytes | None]] = []  # by offset
        self.batch_ends: list[int] = []
        self.log_start_offset = 0
        self.committed = 0  # records that no crash can take away
        self.answers: dict[int, StateAnswer] = {}
        self.waiting: list[Reply[StateAnswer]] = []
        self.to_prune: list[int] = []  # to these offsets, once all is committed
        self.timers: dict[TimerKey, tuple[int, Command]] = {}
        self.tokens = itertools.count(1)
        self.coordinator = ShareCoordinator(new_shard(self.config, self.gone))
        self.carry_out(self.coordinator.start(self.now_ms))

    @property
    def shard(self) -> ShareStateShard:
        return self.coordinator.shard

    # ---- requests ------------------------------------------------------------------------------------------

    def ask(self, request: StateRequest) -> StateAnswer:
        """Return the answer, once all records are committed."""
        token = self.submit(request)
        self.commit()
        return self.answers[token]

    def submit(self, request: StateRequest) -> int:
        token = next(self.tokens)
        self.handle(command_of(token, request))
        return token

    def initialize(
        self, key: SharePartitionKey = KEY, state_epoch: int = 0, start_offset: int = 0
    ) -> StateResult:
        return self._result(InitializeState(key, state_epoch, start_offset))

    def write(
        self,
        *batches: StateBatch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = -1,
        complete: int = 0,
        letters: bytes | None = None,
        incarnation: int = NOT_GIVEN,
    ) -> StateResult:
        return self._result(
            WriteState(key, state_epoch, leader_epoch, start_offset, complete, batches, letters, incarnation)
        )

    def delete(self, key: SharePartitionKey = KEY) -> StateResult:
        return self._result(DeleteState(key))

    def read(self, key: SharePartitionKey = KEY, leader_epoch: int = 0) -> StateRead:
        answer = self.ask(ReadState(key, leader_epoch))
        assert isinstance(answer, StateRead)
        return answer

    def summary(self, key: SharePartitionKey = KEY) -> StateSummary:
        answer = self.ask(ReadStateSummary(key))
        assert isinstance(answer, StateSummary)
        return answer

    def _result(self, request: StateRequest) -> StateResult:
        answer = self.ask(request)
        assert isinstance(answer, StateResult)
        return answer

    # ---- events --------------------------------------------------------------------------------------------

    def handle(self, command: Command) -> list[Effect]:
        effects = self.coordinator.handle(command, self.now_ms)
        self.carry_out(effects)
        self.check()
        return effects

    def carry_out(self, effects: Sequence[Effect]) -> None:
        has_appended = False
        for effect in effects:
            match effect:
                case Append(records):
                    assert records
                    self.rows += [encode_record(record) for record in records]
                    self.batch_ends.append(len(self.rows))
                    has_appended = True
                case Reply(_, _, shows_state):
                    assert has_appended or shows_state, "an answer without a reason to wait"
                    self.waiting.append(effect)
                case StartTimer(key, delay_ms, timed):
                    self.timers[key] = (self.now_ms + delay_ms, timed)
                case PruneLog(offset):
                    self.to_prune.append(offset)
                case Refuse():
                    raise AssertionError(effect)
        if self.commits:
            self.commit()

    def commit(self) -> None:
        self.committed = len(self.rows)
        for reply in self.waiting:
            assert reply.token not in self.answers
            self.answers[reply.token] = reply.result
        self.waiting.clear()
        for offset in self.to_prune:
            assert offset > self.log_start_offset, "nothing is pruned twice"
            self.log_start_offset = offset
        self.to_prune.clear()

    def crash(self) -> None:
        """Lose the records that are not committed; another coordinator loads the rest."""
        del self.rows[self.committed :]
        self.batch_ends = [end for end in self.batch_ends if end <= self.committed]
        self.waiting.clear()
        self.to_prune.clear()
        self.timers.clear()
        self.coordinator = ShareCoordinator(self.loaded())
        self.carry_out(self.coordinator.start(self.now_ms))
        self.coordinator.check_invariants()

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; timers fire in their order."""
        end_ms = self.now_ms + milliseconds
        while due := [(at, key) for key, (at, _) in self.timers.items() if at <= end_ms]:
            at, key = min(due)
            _, command = self.timers.pop(key)
            self.now_ms = max(self.now_ms, at)
            self.handle(command)
        self.now_ms = end_ms

    # ---- results -------------------------------------------------------------------------------------------

    def loaded(self) -> ShareStateShard:
        """Return the shard that another coordinator loads: whole batches, from the start of the log."""
        scan = ShareStateScan(new_shard(self.config, self.gone))
        start = 0
        for end in self.batch_ends:
            if end > self.log_start_offset:
                rows = [(key, value, self.now_ms, ()) for key, value in self.rows[start:end]]
                content = bytes(build_batch(rows, base_offset=start))
                assert scan.feed(content) == end
            start = end
        shard, unreadable = scan.finish()
        assert not unreadable.count
        shard.next_offset, shard.pruned_offset = start, self.log_start_offset
        return shard

    @property
    def states(self) -> dict[SharePartitionKey, ShareState]:
        return {key: known.current for key, known in self.shard.states.items()}

    @property
    def records(self) -> list[ShareStateRecord]:
        """Return all records that were ever appended."""
        decoded = [decode_record(key, value) for key, value in self.rows]
        return [record for record in decoded if record is not None]

    def check(self) -> None:
        self.coordinator.check_invariants()
        shard, loaded = self.shard, self.loaded()
        loaded.check_invariants()
        assert {key: known.current for key, known in loaded.states.items()} == self.states
        assert shard.next_offset == len(self.rows)
        assert loaded.redundant.start_offset == shard.redundant.start_offset or self.log_start_offset
