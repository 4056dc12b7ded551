"""Handles JoinGroup of a classic member in a consumer group, while the group changes its protocol (KIP-848).

A JoinGroup has all fields of the member, as a full ConsumerGroupHeartbeat does. It is answered at once: the
member epoch is the generation, and the group has no leader.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.groupcoord.assignment import TopicPartitions
from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.classic.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
)
from ottla.groupcoord.classic.join_group import checked_protocols, is_session_timeout_allowed, refuse_join
from ottla.groupcoord.classic.member_commands import JoinGroup, Protocol
from ottla.groupcoord.classic.member_results import JoinGroupResult
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ClassicPart, ConsumerMember
from ottla.groupcoord.consumer.consumer_membership import (
    cancel_timers,
    checked_member_record,
    member_join_key,
    member_sync_key,
    replace_member,
    revocation_key,
    start_consumer_session,
)
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupRegularExpressionRecord
from ottla.groupcoord.consumer.downgrade_group import downgrade_for, may_downgrade_for
from ottla.groupcoord.consumer.group_epoch import (
    TargetOfMember,
    bump_group_epoch,
    reason_of_epoch,
    update_target_assignment,
)
from ottla.groupcoord.consumer.migration_commands import ExpireMemberSync
from ottla.groupcoord.consumer.reconciliation import reconcile
from ottla.groupcoord.consumer.regular_expressions import RegexStatus, change_regex
from ottla.groupcoord.consumer.target_assignment import topic_ids
from ottla.groupcoord.coordinator_config import CoordinatorConfig, MigrationPolicy
from ottla.groupcoord.effects import Append, CancelTimer, ContinueWith, Effect, Reply, StartTimer
from ottla.groupcoord.member_bytes import check_members
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.topics_view import TopicsView
from ottla.logstore.words.errors import ErrorCode


def classic_join_to_consumer_group(
    shard: GroupShard, group: ConsumerGroup, command: JoinGroup, now_ms: int
) -> list[Effect]:
    """Add or update a member that uses the classic protocol. An empty group becomes a classic group."""
    if not is_session_timeout_allowed(command, shard.config):
        return refuse_join(command, ErrorCode.INVALID_SESSION_TIMEOUT, command.member_id)
    protocols = checked_protocols(command, shard.config)
    if group.is_empty:
        # It has no members to disturb: it is a classic group from now on.
        if command.member_id:
            return refuse_join(command, ErrorCode.UNKNOWN_MEMBER_ID, command.member_id)
        return [Append(group.tombstones()), ContinueWith(command)]
    member_id = command.member_id or shard.new_uuid()
    error = _refusal(shard.config, group, command, protocols, member_id)
    if error is not None:
        given = member_id if error is ErrorCode.MEMBER_ID_REQUIRED else ""
        return refuse_join(command, error, given)
    before, static = _member(group, command, member_id)
    subscription = decode_subscription(protocols[0].metadata)
    if subscription.owned_partitions and member_id not in group.members and static is None:
        # It was a member once, and works on partitions that others may have by now; a new member owns
        # nothing.
        return refuse_join(command, ErrorCode.UNKNOWN_MEMBER_ID, command.member_id)
    after = _updated(before, command, protocols, subscription)
    counted = 0 if static is None and member_id not in group.members else before.size_bytes
    check_members(shard.member_bytes, after.size_bytes - counted)
    owned = _owned(subscription, shard.topics)
    reconciled, effects = _join(shard, group, before, after, static, owned, now_ms, command)
    result = JoinGroupResult(
        generation_id=reconciled.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocols[0].name,
        member_id=reconciled.member_id,
    )
    return [*effects, Reply(command.token, result, shows_state=True)]


def _refusal(
    config: CoordinatorConfig,
    group: ConsumerGroup,
    command: JoinGroup,
    protocols: Sequence[Protocol],
    member_id: str,
) -> ErrorCode | None:
    if config.group_consumer_migration_policy is MigrationPolicy.DISABLED:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if len(group.members) >= config.group_consumer_max_size and member_id not in group.members:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not group.supports_classic(command.protocol_type, [one.name for one in protocols]):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not command.member_id and command.member_id_required and command.group_instance_id is None:
        return ErrorCode.MEMBER_ID_REQUIRED  # nothing is kept: a client that comes with an id is a new member
    return None


def _join(
    shard: GroupShard,
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    static: ConsumerMember | None,
    owned: Sequence[TopicPartitions],
    now_ms: int,
    command: JoinGroup,
) -> tuple[ConsumerMember, list[Effect]]:
    """Return the member after one step of its reconciliation, and all effects of its JoinGroup.

    `before` and `after` are the member without and with the fields of the request. `static` is the static
    member that has its instance id so far, perhaps the member itself; None if there is none.
    """
    group_id = group.group_id
    records: list[GroupRecord] = []
    effects: list[Effect] = []
    if static is not None and static.member_id != after.member_id:
        records += replace_member(group, static, before)
        effects += cancel_timers(group, static.member_id)
    if after != before:
        records.append(checked_member_record(shard, group_id, after))
    regex = change_regex(shard, group, before, after, now_ms, command.may_describe)
    records += [ConsumerGroupRegularExpressionRecord(group_id, one, None) for one in regex.dropped]
    effects += regex.effects
    changed = after.topic_names != before.topic_names or regex.status is not RegexStatus.SAME
    epoch, changed_topics = group.group_epoch, frozenset(group.changed_topics)
    if changed or group.is_metadata_stale:
        epoch = bump_group_epoch(shard, group, before, after, regex.dropped, records, bumps=changed)
    if static is not None and may_downgrade_for(shard, group, static):
        if epoch > group.assignment_epoch:
            # The rebalance of the classic group finds the new target, and gives the member its generation.
            return after, [*effects, *downgrade_for(shard, group, static, after, records, now_ms, epoch)]
        target = TargetOfMember(epoch, group.target_of(after.member_id, after.instance_id), [])
        reconciled = _reconcile(shard, group, after, target, owned, records, changed=changed)
        return reconciled, [
            *effects,
            *downgrade_for(shard, group, static, reconciled, records, now_ms, epoch),
        ]
    if epoch > group.group_epoch:
        replaces = static is not None and static.member_id != after.member_id
        effects.append(
            reason_of_epoch(
                group,
                before,
                after,
                now_ms,
                replaces=replaces,
                bumps=changed,
                changed_topics=changed_topics,
                reason=command.reason or "",
            )
        )
    target = update_target_assignment(shard, group, epoch, before, after, records, now_ms)
    reconciled = _reconcile(shard, group, after, target, owned, records, changed=changed)
    effects = [*checked_append(shard, records), *effects, *target.effects]
    return reconciled, [*effects, *_wait_for_sync(shard, group, reconciled)]


def _member(
    group: ConsumerGroup, command: JoinGroup, member_id: str
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Return the member without the fields of the request, and the static member of its instance id, or None.

    A static member that rejoins without a member id gets a new one, and takes over the state of the member
    that it replaces, at epoch 0.
    """
    if command.group_instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id), None
    if command.member_id:
        member = group.member_of(command.member_id, command.group_instance_id)
        return member, member
    static = group.static_member(command.group_instance_id)
    if static is None:
        return ConsumerMember(member_id=member_id), None
    return replace(static, member_id=member_id, member_epoch=0, previous_member_epoch=0), static


def _updated(
    member: ConsumerMember, command: JoinGroup, protocols: Sequence[Protocol], subscription: Subscription
) -> ConsumerMember:
    """Return the member with the fields of its JoinGroup; `subscription` is that of its first protocol."""
    return replace(
        member,
        instance_id=member.instance_id if command.group_instance_id is None else command.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=command.client_id,
        client_host=command.client_host,
        classic=ClassicPart(session_timeout_ms=command.session_timeout_ms, protocols=tuple(protocols)),
    )


def _owned(subscription: Subscription, topics: TopicsView) -> list[TopicPartitions]:
    """Return the partitions that the member reports as owned, without those of deleted topics.

    Subscriptions have owned partitions from version 1 on.
    """
    found = [(topics.by_name(one.topic), one.partitions) for one in subscription.owned_partitions]
    return [TopicPartitions(topic.topic_id, partitions) for topic, partitions in found if topic is not None]


def _reconcile(
    shard: GroupShard,
    group: ConsumerGroup,
    member: ConsumerMember,
    target: TargetOfMember,
    owned: Sequence[TopicPartitions],
    records: list[GroupRecord],
    *,
    changed: bool,
) -> ConsumerMember:
    """Return the member after one step of its reconciliation; add its record to `records` if it changed."""
    if not changed and member.is_reconciled_to(target.epoch):
        return member
    reconciled = reconcile(
        member,
        target_epoch=target.epoch,
        target=target.assignment,
        subscribed_ids=topic_ids(group.topics_of(member), shard.topics),
        owner_epoch=group.owner_epoch,
        owned=owned,
        subscription_changed=changed,
    )
    if reconciled != member:
        records.append(reconciled.current_assignment_record(group.group_id))
    return reconciled


def _wait_for_sync(shard: GroupShard, group: ConsumerGroup, member: ConsumerMember) -> list[Effect]:
    """Start the timer within which a member that has joined must send SyncGroup: its rebalance timeout."""
    group.awaited_joins.discard(member.member_id)
    sync = ExpireMemberSync(group_id=group.group_id, member_id=member.member_id)
    return [
        start_consumer_session(shard, group, member.member_id, member.classic),
        CancelTimer(revocation_key(group, member.member_id)),
        CancelTimer(member_join_key(group, member.member_id)),
        StartTimer(member_sync_key(group, member.member_id), member.rebalance_timeout_ms, sync),
    ]
