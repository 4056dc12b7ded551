"""ConsumerGroupHeartbeat (KIP-848): a member joins, reports changes, and takes one step to its target.

    the member as it is now ─► group epoch + 1, if the topics differ ─► a target for it, if it is time
                                                                        ─► one step of this member

The changes are one batch of records, in Kafka's order.
"""

from dataclasses import replace

from ottla.groupcoord.assignment import is_subset, listed
from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.consumer.consumer_commands import ComputeTarget, ConsumerGroupHeartbeat, TargetComputed
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
)
from ottla.groupcoord.consumer.consumer_membership import (
    assign_key,
    assign_timer,
    cancel_timers,
    checked_member_record,
    epoch_record,
    replace_member,
    revocation_timer,
    start_consumer_session,
    timeline_event,
)
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupRegularExpressionRecord
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.consumer.group_epoch import bump_group_epoch, reason_of_epoch, update_target_assignment
from ottla.groupcoord.consumer.leave_consumer_group import leave_consumer_group
from ottla.groupcoord.consumer.migration_commands import FinishUpgrade
from ottla.groupcoord.consumer.reconciliation import reconcile
from ottla.groupcoord.consumer.regular_expressions import RegexStatus, change_regex
from ottla.groupcoord.consumer.target_assignment import (
    apply_target,
    compute_target,
    is_large_target,
    target_task,
    topic_ids,
)
from ottla.groupcoord.consumer.upgrade_group import GroupForHeartbeat, upgrade
from ottla.groupcoord.consumer.validate_heartbeat import validate_heartbeat
from ottla.groupcoord.effects import AddTimelineEvent, CancelTimer, ContinueWith, Effect, Reply, RunTask
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.member_bytes import check_members
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.groupcoord.timeline import Cause, Event
from ottla.logstore.words.errors import ErrorCode, KafkaError


def consumer_group_heartbeat(shard: GroupShard, command: ConsumerGroupHeartbeat, now_ms: int) -> list[Effect]:
    validate_heartbeat(command, shard.config.group_consumer_assignors)
    if command.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return leave_consumer_group(shard, command, now_ms)
    group, records, effects, must_rebalance = _find_or_create_group(shard, command, now_ms)
    member_id = command.member_id or shard.new_uuid()
    if len(group.members) >= shard.config.group_consumer_max_size and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group has reached its maximum capacity of "
            f"{shard.config.group_consumer_max_size} members.",
        )
    before, replaced = _member(group, command, member_id)
    if replaced is not None:
        records += replace_member(group, replaced, before)
        effects += cancel_timers(group, replaced.member_id)
    elif before.classic is not None:
        effects += cancel_timers(group, member_id)
    after = _updated(before, command)
    if after.topic_names != before.topic_names or member_id not in group.members:
        taken = before.size_bytes if before.member_id in group.members or replaced is not None else 0
        check_members(shard.member_bytes, after.size_bytes - taken)
    if after != before or not (replaced or member_id in group.members):
        records.append(checked_member_record(shard, group.group_id, after))
    regex = change_regex(shard, group, before, after, now_ms, command.may_describe)
    records += [ConsumerGroupRegularExpressionRecord(group.group_id, one, None) for one in regex.dropped]
    names_changed = after.topic_names != before.topic_names
    bumps = must_rebalance or names_changed or regex.status is RegexStatus.CHANGED_AND_RESOLVED
    epoch, changed_topics = group.group_epoch, frozenset(group.changed_topics)
    if bumps or group.is_metadata_stale:
        epoch = bump_group_epoch(shard, group, before, after, regex.dropped, records, bumps=bumps)
    if epoch > group.group_epoch:
        effects.append(
            reason_of_epoch(
                group,
                before,
                after,
                now_ms,
                replaces=replaced is not None,
                bumps=bumps,
                changed_topics=changed_topics,
            )
        )
    target = update_target_assignment(shard, group, epoch, before, after, records, now_ms)
    subscription_changed = names_changed or regex.status is not RegexStatus.SAME
    moved = after
    if subscription_changed or not after.is_reconciled_to(target.epoch):
        moved = reconcile(
            after,
            target_epoch=target.epoch,
            target=target.assignment,
            subscribed_ids=topic_ids(group.topics_of(after), shard.topics),
            owner_epoch=group.owner_epoch,
            owned=command.owned,
            subscription_changed=subscription_changed,
        )
    if moved != after:
        records.append(moved.current_assignment_record(group.group_id))
        effects.append(revocation_timer(group, moved))
    effects = [*checked_append(shard, records), *effects]
    effects += [*target.effects, *regex.effects, start_consumer_session(shard, group, member_id)]
    result = _result(shard, command, before, moved)
    return [*effects, Reply(command.token, result, shows_state=True)]


def compute_deferred_target(shard: GroupShard, command: ComputeTarget, now_ms: int) -> list[Effect]:
    """Make a target that no heartbeat made.

    The last one was too recent (KIP-1263), this one is large and is made in a thread (D17), or only classic
    members are left, whose heartbeats make none. It is made of the present topics. If these are not the
    topics of the group epoch, the epoch is raised; otherwise a topic that was deleted and created again could
    stay without members (D28).
    """
    group = shard.consumer_group(command.group_id)
    if group is None or group.is_empty or group.group_epoch <= group.assignment_epoch:
        return []
    if group.computing_epoch is not None:
        return []  # a thread is making a target; a newer one follows it
    records: list[GroupRecord] = []
    effects: list[Effect] = []
    epoch, metadata_hash = group.group_epoch, group_hash(group.subscribed_topics, shard.topics)
    if metadata_hash != group.metadata_hash:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch, metadata_hash))
        changed = ", ".join(sorted(group.changed_topics))
        effects.append(timeline_event(group, Cause.TOPICS_CHANGED, now_ms, reason=changed))
    assignor = group.preferred_assignor(shard.config.group_consumer_assignors, None, None)
    if is_large_target(group, shard.topics, shard.config.largest_inline_target):
        task = target_task(group, shard.topics, epoch=epoch, assignor=assignor)
        group.computing_epoch = epoch
        return [*checked_append(shard, records), *effects, RunTask(task)]
    change = compute_target(group, shard.topics, epoch=epoch, assignor=assignor, now_ms=now_ms)
    try:
        return [*checked_append(shard, [*records, *change.records]), *effects]
    except KafkaError:
        return []  # the next heartbeat gets the error


def target_computed(shard: GroupShard, command: TargetComputed, now_ms: int) -> list[Effect]:
    """Apply a target that a thread made.

    It counts for its epoch even if the group has gone on: otherwise a group that changes all the time would
    never have one (D17).
    """
    group = shard.consumer_group(command.group_id)
    if group is None or group.computing_epoch != command.epoch:
        return []  # another group of this name
    group.computing_epoch = None
    if group.is_empty or group.assignment_epoch >= command.epoch:
        return []
    records = apply_target(group, command.targets, command.instances, epoch=command.epoch, now_ms=now_ms)
    try:
        effects = checked_append(shard, records)
    except KafkaError:
        return []
    if group.group_epoch == command.epoch:
        return [*effects, CancelTimer(assign_key(group))]
    interval_ms = shard.group_config(group.group_id).consumer_assignment_interval_ms
    return [*effects, assign_timer(group, interval_ms)]


# ---- the group and the member ------------------------------------------------------------------------------


def _find_or_create_group(
    shard: GroupShard, command: ConsumerGroupHeartbeat, now_ms: int
) -> GroupForHeartbeat:
    """Return the group of a heartbeat, with the records and effects that upgrade a classic group.

    For a member that joins, a group that does not exist is created. A new group and an upgraded one are kept
    when the records of the heartbeat are replayed.
    """
    group_id, joins = command.group_id, command.member_epoch == JOIN_EPOCH
    group = shard.group(group_id)
    if isinstance(group, ConsumerGroup):
        return GroupForHeartbeat(group, [], [], must_rebalance=False)
    if group is not None:
        if not joins or isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        upgraded = upgrade(shard, group)
        effects: list[Effect] = [ContinueWith(FinishUpgrade(group_id=group_id, timeline=group.timeline))]
        if not group.is_empty:
            event = Event(Cause.UPGRADED, now_ms, command.member_id, command.client_id)
            effects.append(AddTimelineEvent(group_id, event, group.generation_id))
        return upgraded._replace(effects=[*effects, *upgraded.effects])
    if not joins:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    shard.check_new_group()
    return GroupForHeartbeat(ConsumerGroup(group_id, {}), [], [], must_rebalance=False)


def _member(
    group: ConsumerGroup, command: ConsumerGroupHeartbeat, member_id: str
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Return the member as it was before this request, and the static member that it replaces."""
    joins = command.member_epoch == JOIN_EPOCH
    if command.instance_id is None:
        if joins:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id), None
        member = group.member(member_id)
    elif joins:
        existing = group.static_member(command.instance_id)
        if existing is None:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id), None
        if existing.classic is None and existing.member_epoch != LEAVE_STATIC_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {command.instance_id} cannot join the group "
                f"because the instance id is owned by {existing.member_id} member.",
            )
        member = replace(existing, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        return member, existing
    else:
        member = group.member_of(member_id, command.instance_id)
    _check_epoch(member, command)
    return member, None


def _check_epoch(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the member is at the epoch that the coordinator knows.

    It may be one epoch behind, if it may have missed an answer.
    """
    received, known = command.member_epoch, member.member_epoch
    if received == known:
        return
    is_behind = received < known
    if is_behind and received == member.previous_member_epoch and is_subset(command.owned, member.assigned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'smaller' if is_behind else 'greater'} member epoch ({received}) "
        f"than the one known by the group coordinator ({known}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _updated(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> ConsumerMember:
    """Return the member with the fields of the request; absent fields stay as they were."""
    names, regex = command.subscribed_topic_names, command.subscribed_topic_regex
    timeout_ms = command.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=(
            member.server_assignor if command.server_assignor is None else command.server_assignor
        ),
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=command.client_id,
        client_host=command.client_host,
        classic=None,
    )


# ---- the answer --------------------------------------------------------------------------------------------


def _result(
    shard: GroupShard, command: ConsumerGroupHeartbeat, before: ConsumerMember, after: ConsumerMember
) -> ConsumerGroupHeartbeatResult:
    """Return the answer, with the partitions if the member may not know them.

    That is a member that joins, one whose partitions changed, and one that sends all its fields, since it may
    have missed an answer.
    """
    lists_all = (
        command.rebalance_timeout_ms != -1
        and (command.subscribed_topic_names is not None or command.subscribed_topic_regex is not None)
        and command.owned is not None
    )
    sends_assignment = command.member_epoch == JOIN_EPOCH or lists_all or before.assigned != after.assigned
    return ConsumerGroupHeartbeatResult(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=shard.group_config(command.group_id).consumer_heartbeat_interval_ms,
        assignment=listed(after.assigned) if sends_assignment else None,
    )
