"""A shard with a virtual clock, a log that is a list, and timers that fire as a test advances the clock.

After every command it checks the invariants, that the timers are those that the groups need, that no token is
answered twice, and that each appended record can be read back.
"""

import itertools
from collections.abc import Callable, Sequence

from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    MemberIdentity,
    Protocol,
    SyncGroup,
)
from ottla.groupcoord.classic.member_results import (
    HeartbeatResult,
    JoinGroupResult,
    LeaveGroupResult,
    SyncGroupResult,
)
from ottla.groupcoord.classic.rebalance import join_key, session_key, sync_key
from ottla.groupcoord.commands import Command
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Append, CancelTimer, Effect, Refuse, Reply, Result, StartTimer, TimerKey
from ottla.groupcoord.offsets.offset_commands import EndTransaction, Producer
from ottla.groupcoord.offsets.offset_expiry import EXPIRY_KEY
from ottla.groupcoord.offsets.offset_log_scan import OffsetLogScan
from ottla.groupcoord.record_codec import GroupRecord, decode_record, encode_key, encode_value, opened
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.shard_load import load_shard
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, build_marker
from ottla.logstore.words.errors import ErrorCode

START_MS = 1_700_000_000_000


def marker_of(end: EndTransaction) -> bytes:
    marker = EndTransactionMarker(ControlType.COMMIT if end.committed else ControlType.ABORT, 0)
    return bytes(build_marker(marker, producer_id=end.producer_id, producer_epoch=0, timestamp_ms=0))


class GroupWorld:
    def __init__(self, config: CoordinatorConfig | None = None) -> None:
        self.config = config or CoordinatorConfig()
        self.now_ms = START_MS
        self.log: list[GroupRecord] = []
        self.producers: dict[int, Producer] = {}  # of the transaction of a record, by its offset
        self.markers: list[tuple[int, EndTransaction]] = []  # each with the offset of the record after it
        self.timers: dict[TimerKey, tuple[int, int, Command]] = {}
        self.answers: dict[int, Result | Refuse] = {}
        self.take_tasks: Callable[[Sequence[Effect]], None] = lambda effects: None
        # With `is_commit_held` appended records are committed by `commit` only, and answers wait for that.
        self.is_commit_held = False
        self.committed = 0  # the number of committed records
        self.held: dict[int, Result] = {}
        self.requested: set[int] = set()
        self._tokens = itertools.count(1)
        self._sequence = itertools.count()
        self._uuids = itertools.count(1)
        self.coordinator = self._new_coordinator()
        self._carry_out(self.coordinator.start(self.now_ms))

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(self._new_shard())

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.config, lambda: f"u{next(self._uuids)}")

    def token(self) -> int:
        token = next(self._tokens)
        self.requested.add(token)
        return token

    def handle(self, command: Command) -> list[Effect]:
        effects = self.coordinator.handle(command, self.now_ms)
        self._carry_out(effects)
        self.coordinator.check_invariants()
        self._check_timers()
        self.take_tasks(effects)
        return effects

    def _check_timers(self) -> None:
        """Assert that the timers are those of the phases of groups, of sessions and of held heartbeats."""
        wanted: set[TimerKey] = {EXPIRY_KEY}
        spare: set[TimerKey] = set()
        for group in self.coordinator.shard.groups.values():
            if isinstance(group, ConsumerGroup):
                for one in group.members.values():
                    wanted.add(TimerKey("session", group.group_id, one.member_id))
                    if one.classic is not None:
                        spare.add(TimerKey("member-sync", group.group_id, one.member_id))
                    elif one.state is MemberState.UNREVOKED_PARTITIONS and one.member_epoch >= 0:
                        wanted.add(TimerKey("rebalance", group.group_id, one.member_id))
                wanted |= {TimerKey("member-join", group.group_id, one) for one in group.awaited_joins}
                if group.group_epoch > group.assignment_epoch:
                    spare.add(TimerKey("assign", group.group_id))
                continue
            if isinstance(group, ShareGroup):
                wanted |= {TimerKey("session", group.group_id, one) for one in group.members}
                continue
            for member in group.members.values():
                is_waiting = member.join_token is not None or member.sync_token is not None
                (spare if is_waiting and not member.is_new else wanted).add(
                    session_key(group, member.member_id)
                )
            wanted |= {session_key(group, each) for each in group.pending_join_members}
            if group.state is GroupState.PREPARING_REBALANCE:
                wanted.add(join_key(group))
            if group.pending_sync_members:
                wanted.add(sync_key(group))
        held = self.coordinator.shard.held_heartbeats
        for group_id in held.groups():
            wanted |= {
                TimerKey("hold", group_id, command.member_id)
                for command in held.heartbeats_of_group(group_id)
            }
        # Timers of heartbeats that were answered early are not cancelled: the next heartbeat moves them.
        spare |= {key for key in self.timers if key.purpose in ("hold", "wake", "share-topics")}
        missing, left_over = wanted - self.timers.keys(), self.timers.keys() - wanted - spare
        assert (sorted(missing)[:3], sorted(left_over)[:3]) == ([], [])

    def commit(self) -> None:
        """Commit all appended records; the answers that waited for them leave."""
        self.committed = len(self.log)
        self.answers |= self.held
        self.held = {}

    def _answer(self, token: int, answer: Result | Refuse, *, waits: bool) -> None:
        assert token in self.requested, token
        assert token not in self.answers and token not in self.held, f"token {token} answered twice"
        is_behind = self.is_commit_held and self.committed < len(self.log)
        if waits and is_behind and not isinstance(answer, Refuse):
            self.held[token] = answer
        else:
            self.answers[token] = answer

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        has_appended = False
        for effect in effects:
            match effect:
                case Append(records, producer):
                    has_appended = True
                    # A record that cannot be read back is an error now, not at the next load.
                    for record in itertools.chain.from_iterable(map(opened, records)):
                        assert decode_record(encode_key(record), encode_value(record)) == record
                        if producer is not None:
                            self.producers[len(self.log)] = producer
                        self.log.append(record)
                case Reply(token, result, shows_state):
                    self._answer(token, result, waits=has_appended or shows_state)
                case Refuse(token, _, _):
                    self._answer(token, effect, waits=False)
                case StartTimer(key, delay_ms, command):
                    assert delay_ms >= 0
                    self.timers[key] = (self.now_ms + delay_ms, next(self._sequence), command)
                case CancelTimer(key):
                    self.timers.pop(key, None)

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; timers fire in their order."""
        until_ms = self.now_ms + milliseconds
        while self.timers:
            key, (deadline_ms, _, command) = min(self.timers.items(), key=lambda item: item[1][:2])
            if deadline_ms > until_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, deadline_ms)
            self.handle(command)
        self.now_ms = until_ms

    def waiting(self) -> set[int]:
        return self.requested - self.answers.keys()

    def restart(self, *, loses: bool = False) -> None:
        """Stop the process and load the log again.

        With `loses`, uncommitted records and the answers that wait for them are lost.
        """
        self._carry_out(self.coordinator.stop(ErrorCode.NOT_COORDINATOR))
        self.answers |= {token: Refuse(token, ErrorCode.NOT_COORDINATOR) for token in self.held}
        self.held = {}
        if loses and self.is_commit_held:
            del self.log[self.committed :]
            self.producers = {at: one for at, one in self.producers.items() if at < self.committed}
        self.committed = len(self.log)
        self.timers.clear()
        scan = OffsetLogScan()
        markers = list(self.markers)
        for offset, record in enumerate(self.log):
            while markers and markers[0][0] <= offset:
                scan.feed(marker_of(markers.pop(0)[1]))
            row = (encode_key(record), encode_value(record), self.now_ms, ())
            producer = self.producers.get(offset, Producer(-1, -1))
            batch = build_batch(
                [row],
                base_offset=offset,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                is_transactional=offset in self.producers,
            )
            scan.feed(bytes(batch))
        for _, marker in markers:
            scan.feed(marker_of(marker))
        self.coordinator = Coordinator(load_shard(scan.finish(), self._new_shard()))
        self.coordinator.check_invariants()
        self._carry_out(self.coordinator.start(self.now_ms))

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.commit()
        marker = EndTransaction(producer_id=producer_id, committed=committed)
        self.markers.append((len(self.log), marker))
        self.handle(marker)

    # ---- what clients do --------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        member_id_required: bool = False,
        can_skip_assignment: bool = True,
        client_id: str = "c",
        reason: str | None = None,
    ) -> int:
        token = self.token()
        self.handle(
            JoinGroup(
                token=token,
                group_id=group_id,
                member_id=member_id,
                group_instance_id=instance,
                client_id=client_id,
                client_host="/127.0.0.1",
                protocol_type=protocol_type,
                protocols=[Protocol(*each) for each in protocols],
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                member_id_required=member_id_required,
                can_skip_assignment=can_skip_assignment,
                reason=reason,
            )
        )
        return token

    def joined(self, token: int) -> JoinGroupResult:
        answer = self.answers[token]
        assert isinstance(answer, JoinGroupResult), answer
        return answer

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: Sequence[tuple[str, bytes]] = (),
        *,
        group_id: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        token = self.token()
        self.handle(
            SyncGroup(
                token=token,
                group_id=group_id,
                generation_id=generation_id,
                member_id=member_id,
                group_instance_id=instance,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=assignments,
            )
        )
        return token

    def synced(self, token: int) -> SyncGroupResult:
        answer = self.answers[token]
        assert isinstance(answer, SyncGroupResult), answer
        return answer

    def heartbeat(
        self, member_id: str, generation_id: int, *, group_id: str = "g", instance: str | None = None
    ) -> ErrorCode:
        token = self.token()
        self.handle(
            Heartbeat(
                token=token,
                group_id=group_id,
                generation_id=generation_id,
                member_id=member_id,
                group_instance_id=instance,
            )
        )
        answer = self.answers[token]
        assert isinstance(answer, HeartbeatResult | Refuse)
        return answer.error

    def leave(self, *members: MemberIdentity | str, group_id: str = "g") -> list[ErrorCode]:
        token = self.token()
        identities = [MemberIdentity(each) if isinstance(each, str) else each for each in members]
        self.handle(LeaveGroup(token=token, group_id=group_id, members=identities))
        answer = self.answers[token]
        assert isinstance(answer, LeaveGroupResult), answer
        return [member.error for member in answer.members]

    def ask(self, command: Command) -> Result | Refuse:
        """Handle a command whose token is from `token()`, and return its answer, which must come at once."""
        self.handle(command)
        return self.answers[command.token]  # type: ignore[union-attr]

    def state(self, group_id: str = "g") -> GroupState:
        group = self.coordinator.shard.classic_group(group_id)
        return group.state if group is not None else GroupState.DEAD

    def stable_group(self, size: int = 2, **fields: object) -> list[str]:
        """Make a stable group with that many members in generation 1; the leader is the first in the list."""
        return self.static_group(*[None] * size, **fields)

    def static_group(self, *instances: str | None, **fields: object) -> list[str]:
        """Make a stable group of these instances, None for a dynamic member; the first one leads."""
        joins = [self.join(**{"instance": each, **fields}) for each in instances]  # type: ignore[arg-type]
        self.advance(self.config.group_initial_rebalance_delay_ms * len(joins) + 1)
        members = [self.joined(join).member_id for join in joins]
        for member_id in members[1:]:
            self.sync(member_id, 1)
        self.sync(members[0], 1, [(member_id, member_id.encode()) for member_id in members])
        assert self.state() is GroupState.STABLE
        return members
