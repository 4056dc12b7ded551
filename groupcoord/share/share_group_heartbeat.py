"""ShareGroupHeartbeat (KIP-932): a member joins, stays or leaves, and gets its partitions.

The changes are one batch of records, in Kafka's order. After it, the persister is asked to begin the state of
share-partitions that have none yet.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ottla.groupcoord.assignment import Assignment, TopicPartitions, listed
from ottla.groupcoord.checked_append import check_subscription, checked_append
from ottla.groupcoord.consumer.consumer_commands import TargetComputed
from ottla.groupcoord.effects import Effect, Reply, RunTask
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.member_bytes import check_members
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_commands import ShareGroupHeartbeat
from ottla.groupcoord.share.share_group import ShareGroup, ShareStates
from ottla.groupcoord.share.share_member import JOIN_EPOCH, LEAVE_EPOCH, ShareMember
from ottla.groupcoord.share.share_membership import (
    fence_share_member,
    share_epoch_record,
    start_share_session,
)
from ottla.groupcoord.share.share_results import ShareGroupHeartbeatResult
from ottla.groupcoord.share.share_states import begin_states, initialize_effect, missing_states
from ottla.groupcoord.share.share_target import (
    apply_share_target,
    compute_share_target,
    is_large_share_target,
    share_target_task,
    subscribed_part,
)
from ottla.groupcoord.share.validate_share_heartbeat import validate_share_heartbeat
from ottla.logstore.words.errors import ErrorCode, KafkaError

_ABANDON: Final = "The member must abandon all its partitions and rejoin."


def share_group_heartbeat(shard: GroupShard, command: ShareGroupHeartbeat, now_ms: int) -> list[Effect]:
    validate_share_heartbeat(command)
    if command.member_epoch == LEAVE_EPOCH:
        return _leave(shard, command)
    group = _find_or_create_group(shard, command)
    if _is_unchanged_heartbeat(group, command):
        return [start_share_session(shard, group, command.member_id), _reply(shard, group, command)]
    before = _member(shard, group, command)
    after = _updated(before, command)
    is_new = command.member_id not in group.members
    records: list[GroupRecord] = []
    if is_new or after != before:
        check_members(shard.member_bytes, after.size_bytes - (0 if is_new else before.size_bytes))
        records.append(after.metadata_record(group.group_id))
        check_subscription(shard, records[0], "subscribe to fewer topics.")
    names = group.topics_after(group.members.get(command.member_id), after)
    bumps = after.topic_names != before.topic_names
    if group.assignment_epoch >= group.group_epoch:
        bumps = bumps or _has_unassigned_states(group)
    epoch = group.group_epoch
    if bumps or group.is_metadata_stale:
        metadata_hash = group_hash(names, shard.topics)
        bumps = bumps or metadata_hash != group.metadata_hash
        if bumps:
            epoch += 1
            records.append(share_epoch_record(group.group_id, epoch, metadata_hash))
        group.is_metadata_stale = False
    target_epoch, target, tasks = _target(shard, group, epoch, after, records, now_ms)
    moved = _reconciled(shard, after, target_epoch, target, is_changed=bumps)
    if moved != after:
        records.append(moved.current_assignment_record(group.group_id))
    wanted = missing_states(shard, group, names, now_ms)
    records += begin_states(group, wanted)
    effects = checked_append(shard, records)
    shard.share_rebalances += bumps
    if tasks:
        group.computing_epoch = epoch
    effects += [*tasks, start_share_session(shard, group, command.member_id)]
    group.is_quiet = not records and epoch == group.assignment_epoch and not _is_initializing(group)
    if wanted:
        effects.append(initialize_effect(shard, group.group_id, epoch, wanted))
    sends_assignment = (
        command.member_epoch == JOIN_EPOCH
        or command.subscribed_topic_names is not None
        or moved.assigned != before.assigned
    )
    assignment = listed(moved.assigned) if sends_assignment else None
    return [*effects, _reply(shard, group, command, moved.member_epoch, assignment)]


def _is_unchanged_heartbeat(group: ShareGroup, command: ShareGroupHeartbeat) -> bool:
    """Return True if the heartbeat has nothing new, and nothing has to be looked at: most are like this."""
    member = group.members.get(command.member_id)
    return (
        group.is_quiet
        and not group.is_metadata_stale
        and member is not None
        and command.subscribed_topic_names is None
        and command.rack_id is None
        and command.member_epoch == member.member_epoch == group.assignment_epoch
        and (member.client_id, member.client_host) == (command.client_id, command.client_host)
    )


def _reply(
    shard: GroupShard,
    group: ShareGroup,
    command: ShareGroupHeartbeat,
    member_epoch: int | None = None,
    assignment: Sequence[TopicPartitions] | None = None,
) -> Reply[ShareGroupHeartbeatResult]:
    result = ShareGroupHeartbeatResult(
        member_id=command.member_id,
        member_epoch=command.member_epoch if member_epoch is None else member_epoch,
        heartbeat_interval_ms=shard.group_config(group.group_id).share_heartbeat_interval_ms,
        assignment=assignment,
    )
    return Reply(command.token, result, shows_state=True)


def share_target_computed(shard: GroupShard, command: TargetComputed, now_ms: int) -> list[Effect]:
    """Apply a target that a thread made. It counts for its epoch even if the group has gone on."""
    group = shard.share_group(command.group_id)
    if group is None or group.computing_epoch != command.epoch:
        return []  # another group of this name
    group.computing_epoch = None
    if group.is_empty or group.assignment_epoch >= command.epoch:
        return []
    try:
        return checked_append(
            shard,
            apply_share_target(group, group.members, command.targets, epoch=command.epoch, now_ms=now_ms),
        )
    except KafkaError:
        return []  # the next heartbeat that needs one gets the error


def _leave(shard: GroupShard, command: ShareGroupHeartbeat) -> list[Effect]:
    group = shard.group(command.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a share group.")
    effects = fence_share_member(shard, group, group.member(command.member_id))
    result = ShareGroupHeartbeatResult(member_id=command.member_id, member_epoch=command.member_epoch)
    return [*effects, Reply(command.token, result)]


# ---- the group and the member ------------------------------------------------------------------------------


def _find_or_create_group(shard: GroupShard, command: ShareGroupHeartbeat) -> ShareGroup:
    """Return the group; a member that joins may make one, which exists when the records are replayed."""
    group_id = command.group_id
    group = shard.group(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is not None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if command.member_epoch != JOIN_EPOCH:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    shard.check_new_group()
    return ShareGroup(group_id, {}, {})


def _member(shard: GroupShard, group: ShareGroup, command: ShareGroupHeartbeat) -> ShareMember:
    """Return the member as it was before this request, or raise an error if it cannot be at that epoch."""
    most = shard.config.group_share_max_size
    member = group.members.get(command.member_id)
    if member is None and len(group.members) >= most:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {most} members.",
        )
    received = command.member_epoch
    if member is None:
        return (
            ShareMember(member_id=command.member_id)
            if received == JOIN_EPOCH
            else group.member(command.member_id)
        )
    known, previous = member.member_epoch, member.previous_member_epoch
    if received == JOIN_EPOCH:
        return member
    if received > known:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({received}) than the one known by the group "
            f"coordinator ({known}). {_ABANDON}",
        )
    if received < known and received != previous:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({received}) than the one known by the group "
            f"coordinator ({known}), and it does not match the previous member epoch "
            f"({previous}). {_ABANDON}",
        )
    return member


def _updated(member: ShareMember, command: ShareGroupHeartbeat) -> ShareMember:
    """Return the member with the fields of the request; absent fields stay as they were."""
    names = command.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        topic_names=member.topic_names if names is None else frozenset(names),
        client_id=command.client_id,
        client_host=command.client_host,
    )


# ---- the target --------------------------------------------------------------------------------------------


def _is_initializing(group: ShareGroup) -> bool:
    return group.states is not None and bool(group.states.initializing)


def _has_unassigned_states(group: ShareGroup) -> bool:
    """Return True if the targets differ from the initialized partitions of subscribed topics."""
    states = group.states or ShareStates()
    if group.is_empty or not states.initialized:
        return False
    assigned: dict[bytes, set[int]] = {}
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    return any(
        name in group.topics and assigned.get(topic_id, set()) != partitions
        for topic_id, (name, partitions) in states.initialized.items()
    )


def _target(
    shard: GroupShard,
    group: ShareGroup,
    epoch: int,
    after: ShareMember,
    records: list[GroupRecord],
    now_ms: int,
) -> tuple[int, Assignment, list[Effect]]:
    """Return the target's epoch, the member's part of it, and a task if a thread must make it.

    It is a new target if the group epoch is newer than the last one's, at most one in an assignment interval;
    later heartbeats look again.
    """
    kept = group.targets.get(after.member_id, {})
    if group.assignment_epoch >= epoch or group.computing_epoch is not None:
        return group.assignment_epoch, kept, []
    interval_ms = shard.group_config(group.group_id).share_assignment_interval_ms
    # More than the interval: the clock was set back since.
    left_ms = group.assignment_timestamp_ms + interval_ms - now_ms
    if group.assignment_timestamp_ms and 0 < left_ms <= interval_ms:
        return group.assignment_epoch, kept, []
    if is_large_share_target(group, shard.config.largest_inline_share_target):
        task = share_target_task(group, shard.topics, epoch=epoch, changed=after)
        return group.assignment_epoch, kept, [RunTask(task)]
    made = compute_share_target(group, shard.topics, epoch=epoch, now_ms=now_ms, changed=after)
    records += made.records
    return epoch, made.targets.get(after.member_id, {}), []


def _reconciled(
    shard: GroupShard, member: ShareMember, target_epoch: int, target: Assignment, *, is_changed: bool
) -> ShareMember:
    """Return the member at its target; one that is there changes only if its subscription may have."""
    if not is_changed and member.is_reconciled_to(target_epoch):
        return member
    assigned = subscribed_part(target, member, shard.topics)
    if member.member_epoch == target_epoch:
        return replace(member, assigned=assigned) if is_changed else member
    return replace(
        member,
        member_epoch=target_epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
    )
