"""One shard of the group coordinator: the groups whose records are in one partition of `__consumer_offsets`.

    coordinator = Coordinator(shard)                # a shard loaded from the log, or an empty one
    effects = coordinator.start(now_ms)             # timers of the loaded groups
    effects = coordinator.handle(command, now_ms)   # for each command
    effects = coordinator.stop(error)               # answers all waiting requests; the last call

`handle` decides and replays its own `Append`s at once: the state runs ahead of the log by the records that
the caller is about to append. If an append fails, the caller drops the coordinator and loads another one from
the log.
"""

from ottla.groupcoord.admin_commands import DeleteGroups, DescribeConsumerGroups, DescribeGroups, ListGroups
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.heartbeat import heartbeat
from ottla.groupcoord.classic.join_group import join_group
from ottla.groupcoord.classic.leave_group import leave_group
from ottla.groupcoord.classic.member_commands import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    MemberCommand,
    SyncGroup,
)
from ottla.groupcoord.classic.rebalance import (
    expire_join,
    expire_session,
    expire_sync,
    extend_initial_rebalance,
    start_classic_group,
    stop_classic_group,
)
from ottla.groupcoord.classic.sync_group import sync_group
from ottla.groupcoord.commands import Command
from ottla.groupcoord.consumer.classic_to_consumer_group import classic_request_to_consumer_group
from ottla.groupcoord.consumer.consumer_commands import (
    ComputeTarget,
    ConsumerGroupHeartbeat,
    ExpireConsumerSession,
    ExpireRevocation,
    RegexesResolved,
    TargetComputed,
    TopicsChanged,
)
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_group_describe import describe_consumer_groups
from ottla.groupcoord.consumer.consumer_group_heartbeat import (
    compute_deferred_target,
    consumer_group_heartbeat,
    target_computed,
)
from ottla.groupcoord.consumer.consumer_membership import start_consumer_session
from ottla.groupcoord.consumer.consumer_timers import (
    expire_consumer_session,
    expire_member_join,
    expire_member_sync,
    expire_revocation,
    start_consumer_group,
    topics_changed,
)
from ottla.groupcoord.consumer.downgrade_group import finish_downgrade
from ottla.groupcoord.consumer.hold_heartbeat import hold_heartbeat
from ottla.groupcoord.consumer.migration_commands import (
    ExpireMemberJoin,
    ExpireMemberSync,
    FinishDowngrade,
    FinishUpgrade,
)
from ottla.groupcoord.consumer.regular_expressions import regexes_resolved
from ottla.groupcoord.consumer.unchanged_heartbeat import unchanged_heartbeat
from ottla.groupcoord.consumer.upgrade_group import finish_upgrade
from ottla.groupcoord.describe_groups import describe_groups, list_groups
from ottla.groupcoord.effects import (
    AddTimelineEvent,
    Append,
    ContinueWith,
    Effect,
    InitializeShareState,
    Refuse,
    StartTimer,
)
from ottla.groupcoord.offsets.offset_commands import (
    EndTransaction,
    ForgetOffsets,
    ForgetTopics,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_commit import commit_in_transaction, commit_offsets
from ottla.groupcoord.offsets.offset_delete import delete_offsets, forget_offsets, forget_topics
from ottla.groupcoord.offsets.offset_expiry import EXPIRY_KEY, expire_offsets
from ottla.groupcoord.offsets.offset_fetch import fetch_offsets
from ottla.groupcoord.offsets.offset_values import CommittedOffsets
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard, check_group_id
from ottla.groupcoord.share.decide_share_command import decide_share_command
from ottla.groupcoord.share.delete_share_groups import delete_groups_of_any_kind
from ottla.groupcoord.share.share_commands import ShareGroupHeartbeat
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.groupcoord.share.share_group_heartbeat import share_target_computed
from ottla.groupcoord.share.share_membership import start_share_group, start_share_session
from ottla.groupcoord.share.share_states import look_for_deleted_topics
from ottla.groupcoord.timer_commands import (
    AnswerHeldHeartbeat,
    ExpireJoin,
    ExpireOffsets,
    ExpireSession,
    ExpireSync,
    ExtendInitialRebalance,
    WakeHeldHeartbeats,
)
from ottla.groupcoord.wake_heartbeats import wake_for_records, wake_for_topics, wake_group
from ottla.logstore.words.errors import ErrorCode, KafkaError


class Coordinator:
    """The coordinator of one shard: commands in, effects out. Not thread-safe: one owner calls it."""

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard

    def start(self, now_ms: int) -> list[Effect]:
        """Start the timers of the loaded groups: each member has its session timeout to send a heartbeat.

        Called before the first command.
        """
        shard = self.shard
        effects: list[Effect] = [
            StartTimer(EXPIRY_KEY, shard.config.offsets_retention_check_interval_ms, ExpireOffsets())
        ]
        for group in shard.groups.values():
            match group:
                case ClassicGroup():
                    effects += self._replay_appends(start_classic_group(shard, group, now_ms), now_ms)
                case ConsumerGroup():
                    effects += start_consumer_group(shard, group)
                case ShareGroup():
                    effects += start_share_group(shard, group)
        return effects

    def handle(self, command: Command, now_ms: int) -> list[Effect]:
        """Decide a command. A KafkaError of a client's command becomes a `Refuse`."""
        try:
            effects = self._decide(command, now_ms)
        except KafkaError as error:
            token = getattr(command, "token", None)
            assert token is not None, (command, error)
            return [Refuse(token, error.code, error.detail)]
        return self._replay_appends(effects, now_ms)

    def extend_session(self, command: ConsumerGroupHeartbeat | ShareGroupHeartbeat) -> list[Effect]:
        """Extend the session of a member whose heartbeat cannot be decided now: it is alive all the same."""
        group, member_id = self.shard.group(command.group_id), command.member_id
        if group is None or member_id not in group.members or command.member_epoch < 0:
            return []
        match group:
            case ConsumerGroup() if isinstance(command, ConsumerGroupHeartbeat):
                return [start_consumer_session(self.shard, group, member_id)]
            case ShareGroup() if isinstance(command, ShareGroupHeartbeat):
                return [start_share_session(self.shard, group, member_id)]
            case _:
                return []

    def stop(self, error: ErrorCode) -> list[Effect]:
        """Refuse every waiting request with `error`: this is no longer the coordinator of these groups."""
        effects: list[Effect] = []
        for group in self.shard.groups.values():
            match group:
                case ClassicGroup():
                    effects += stop_classic_group(group, error)
                case ConsumerGroup():
                    pass  # its members wait with their heartbeats only
                case ShareGroup():
                    pass  # its members do not wait
        waiting, self.shard.awaiting_persister = self.shard.awaiting_persister, set()
        effects += [Refuse(token, error) for token in sorted(waiting)]
        return effects + self.shard.held_heartbeats.refuse_all(error)

    def check_invariants(self) -> None:
        """Assert the invariants that hold between any two commands; tests call it after each."""
        self.shard.check_invariants()

    def _replay_appends(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """Replay the appended records, and decide the commands that follow from them."""
        following: list[Effect] = []
        changed: ConsumerGroup | None = None
        records: list[GroupRecord] = []  # without offsets, which are no news to members
        for effect in effects:
            if isinstance(effect, Append):
                for record in effect.records:
                    self.shard.replay(record, producer=effect.producer)
                    if not isinstance(record, CommittedOffsets):
                        records.append(record)
                if records:
                    changed = self.shard.consumer_group(records[-1].group_id)
            if isinstance(effect, ContinueWith):
                following += self.handle(effect.command, now_ms)
            elif isinstance(effect, AddTimelineEvent):
                group = self.shard.consumer_group(effect.group_id)
                assert group is not None, effect
                group.timeline.note(effect.event, effect.group_epoch)
            elif isinstance(effect, InitializeShareState):
                sharing = self.shard.share_group(effect.group_id)
                assert sharing is not None, effect
                sharing.note_initializing({one.key.topic_id for one in effect.requests}, now_ms)
                following.append(effect)
            else:
                following.append(effect)
        if changed is not None:
            changed.end_rebalance(now_ms)
        if records:
            following += self._replay_appends(wake_for_records(self.shard, records), now_ms)
        return following

    def _decide(self, command: Command, now_ms: int) -> list[Effect]:
        shard = self.shard
        match command:
            case Heartbeat() | JoinGroup() | SyncGroup() | LeaveGroup():
                return self._decide_for_member(command, now_ms)
            case ConsumerGroupHeartbeat():
                effects = unchanged_heartbeat(shard, command)
                if effects is None:
                    effects = consumer_group_heartbeat(shard, command, now_ms)
                return hold_heartbeat(shard, command, effects) if command.hold_ms else effects
            case OffsetCommit():
                return commit_offsets(shard, command, now_ms)
            case OffsetFetch():
                return fetch_offsets(shard, command)
            case DescribeGroups():
                return describe_groups(shard, command)
            case DescribeConsumerGroups():
                return describe_consumer_groups(shard, command)
            case ListGroups():
                return list_groups(shard, command)
            case OffsetDelete():
                return delete_offsets(shard, command)
            case DeleteGroups():
                return delete_groups_of_any_kind(shard, command)
            case ExpireSession():
                return expire_session(shard, command, now_ms)
            case ExtendInitialRebalance():
                return extend_initial_rebalance(shard, command, now_ms)
            case ExpireJoin():
                return expire_join(shard, command, now_ms)
            case ExpireSync():
                return expire_sync(shard, command, now_ms)
            case ExpireConsumerSession():
                return expire_consumer_session(shard, command, now_ms)
            case ExpireRevocation():
                return expire_revocation(shard, command, now_ms)
            case ComputeTarget():
                return compute_deferred_target(shard, command, now_ms)
            case ExpireMemberJoin():
                return expire_member_join(shard, command, now_ms)
            case ExpireMemberSync():
                return expire_member_sync(shard, command, now_ms)
            case FinishUpgrade():
                return finish_upgrade(shard, command)
            case FinishDowngrade():
                return finish_downgrade(shard, command, now_ms)
            case TargetComputed():
                if shard.share_group(command.group_id) is not None:
                    return share_target_computed(shard, command, now_ms)
                return target_computed(shard, command, now_ms)
            case RegexesResolved():
                return regexes_resolved(shard, command, now_ms)
            case TopicsChanged():
                effects = topics_changed(shard, command)
                return [*effects, *look_for_deleted_topics(shard), *wake_for_topics(shard, command)]
            case AnswerHeldHeartbeat():
                return shard.held_heartbeats.answer(command.group_id, command.member_id, command.held)
            case WakeHeldHeartbeats():
                return wake_group(shard, command.group_id)
            case ExpireOffsets():
                return expire_offsets(shard, now_ms)
            case TxnOffsetCommit():
                return commit_in_transaction(shard, command, now_ms)
            case EndTransaction(producer_id=producer_id, committed=committed):
                shard.end_transaction(producer_id, committed=committed)
                return []
            case ForgetOffsets():
                return forget_offsets(shard, command)
            case ForgetTopics():
                return forget_topics(shard, command)
            case _:
                return decide_share_command(shard, command, now_ms)

    def _decide_for_member(self, command: MemberCommand, now_ms: int) -> list[Effect]:
        """Decide a request of the classic protocol by the kind of its group."""
        check_group_id(command.group_id)
        group = self.shard.group(command.group_id)
        match group:
            case None | ClassicGroup():
                return _decide_in_classic_group(self.shard, group, command, now_ms)
            case ConsumerGroup():
                return classic_request_to_consumer_group(self.shard, group, command, now_ms)
            case ShareGroup():
                if isinstance(command, JoinGroup):
                    raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
                # To its members it does not exist.
                return _decide_in_classic_group(self.shard, None, command, now_ms)


def _decide_in_classic_group(
    shard: GroupShard, group: ClassicGroup | None, command: MemberCommand, now_ms: int
) -> list[Effect]:
    match command:
        case Heartbeat():
            return heartbeat(shard, group, command, now_ms)
        case JoinGroup():
            return join_group(shard, group, command, now_ms)
        case SyncGroup():
            return sync_group(shard, group, command, now_ms)
        case LeaveGroup():
            return leave_group(shard, group, command, now_ms)
