"""Records and timers of members of consumer groups that join, leave, are replaced or fenced."""

from collections.abc import Sequence

from ottla.groupcoord.checked_append import check_subscription, checked_append
from ottla.groupcoord.consumer.consumer_commands import ComputeTarget, ExpireConsumerSession, ExpireRevocation
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ClassicPart, ConsumerMember
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    ConsumerGroupRecord,
    ConsumerGroupRegularExpressionRecord,
    ConsumerGroupTargetAssignmentMemberRecord,
)
from ottla.groupcoord.consumer.downgrade_group import downgrade
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.consumer.target_assignment import target_record
from ottla.groupcoord.effects import AddTimelineEvent, CancelTimer, Effect, StartTimer, TimerKey
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.record_codec import record_size_bytes
from ottla.groupcoord.shard import GroupShard, appends
from ottla.groupcoord.timeline import Cause, Event


def session_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    return TimerKey("session", group.group_id, member_id)


def revocation_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    return TimerKey("rebalance", group.group_id, member_id)


def member_join_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    return TimerKey("member-join", group.group_id, member_id)


def member_sync_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    return TimerKey("member-sync", group.group_id, member_id)


def cancel_timers(group: ConsumerGroup, member_id: str) -> list[CancelTimer]:
    """Return the effects that cancel all timers of a member."""
    purposes = ("session", "rebalance", "member-join", "member-sync")
    return [CancelTimer(TimerKey(purpose, group.group_id, member_id)) for purpose in purposes]


def assign_key(group: ConsumerGroup) -> TimerKey:
    return TimerKey("assign", group.group_id)


def start_consumer_session(
    shard: GroupShard, group: ConsumerGroup, member_id: str, classic: ClassicPart | None = None
) -> StartTimer[ExpireConsumerSession]:
    """Renew the member's session; a classic member has a session timeout of its own."""
    if classic is None:
        timeout_ms = shard.group_config(group.group_id).consumer_session_timeout_ms
    else:
        timeout_ms = classic.session_timeout_ms
    command = ExpireConsumerSession(group_id=group.group_id, member_id=member_id)
    return StartTimer(session_key(group, member_id), timeout_ms, command)


def revocation_timer(
    group: ConsumerGroup, member: ConsumerMember
) -> StartTimer[ExpireRevocation] | CancelTimer:
    """Start the rebalance timeout of a member that has partitions to give up; cancel it for any other."""
    key = revocation_key(group, member.member_id)
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        return CancelTimer(key)
    command = ExpireRevocation(
        group_id=group.group_id, member_id=member.member_id, member_epoch=member.member_epoch
    )
    return StartTimer(key, max(member.rebalance_timeout_ms, 0), command)


def assign_timer(group: ConsumerGroup, delay_ms: int) -> StartTimer[ComputeTarget]:
    return StartTimer(assign_key(group), max(delay_ms, 0), ComputeTarget(group_id=group.group_id))


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerGroupMetadataRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataRecord(group_id, value)


def checked_member_record(
    shard: GroupShard, group_id: str, member: ConsumerMember
) -> ConsumerGroupMemberMetadataRecord:
    """Return the record of a member's subscription; INVALID_REQUEST if no batch can hold it."""
    record = member.metadata_record(group_id)
    check_subscription(shard, record, "subscribe to fewer topics, or by a regular expression.")
    return record


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerGroupRecord]:
    return [
        ConsumerGroupCurrentMemberAssignmentRecord(group_id, member_id, None),
        ConsumerGroupTargetAssignmentMemberRecord(group_id, member_id, None),
        ConsumerGroupMemberMetadataRecord(group_id, member_id, None),
    ]


def replace_member(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember
) -> list[ConsumerGroupRecord]:
    """Return the records by which a static member under a new id gets the place of the one before."""
    target = group.targets.get(before.member_id, {})
    return [
        *member_tombstones(group.group_id, before.member_id),
        after.metadata_record(group.group_id),
        target_record(group.group_id, after.member_id, target),
        after.current_assignment_record(group.group_id),
    ]


def timeline_event(
    group: ConsumerGroup, cause: Cause, now_ms: int, member: ConsumerMember | None = None, reason: str = ""
) -> AddTimelineEvent:
    """Return the effect that adds an event to the timeline; list it after the records."""
    member_id, client_id = ("", "") if member is None else (member.member_id, member.client_id)
    return AddTimelineEvent(
        group.group_id, Event(cause, now_ms, member_id, client_id, reason), group.group_epoch
    )


def fence_members(
    shard: GroupShard,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    now_ms: int,
    cause: Cause,
    reason: str = "",
) -> list[Effect]:
    """Remove these members: the others share their partitions, or become a classic group again."""
    timeline_events = [timeline_event(group, cause, now_ms, member, reason) for member in members]
    downgraded = downgrade(shard, group, [each.event for each in timeline_events], now_ms)
    if downgraded is not None:
        return downgraded
    records: list[ConsumerGroupRecord] = []
    effects: list[Effect] = []
    lost: dict[str, int] = {}
    for member in members:
        records += member_tombstones(group.group_id, member.member_id)
        effects += cancel_timers(group, member.member_id)
        if member.topic_regex:
            lost[member.topic_regex] = lost.get(member.topic_regex, 0) + 1
    dropped = sorted(regex for regex, count in lost.items() if group.regex_member_count(regex) == count)
    records += [ConsumerGroupRegularExpressionRecord(group.group_id, regex, None) for regex in dropped]
    names = group.topics_after(members, (), dict.fromkeys(dropped))
    epoch = group.group_epoch + 1
    gone = {member.member_id for member in members}
    if len(gone) == len(group.members):
        effects.append(CancelTimer(assign_key(group)))
    elif group.has_classic_members_only(gone):
        # Members that stay learn of a new target, but do not have one made unless they join again.
        interval_ms = shard.group_config(group.group_id).consumer_assignment_interval_ms
        effects.append(assign_timer(group, interval_ms))
    effects += timeline_events
    new_epoch = epoch_record(group.group_id, epoch, group_hash(names, shard.topics))
    if sum(map(record_size_bytes, records)) > shard.config.max_batch_bytes // 2:
        # So many leave that it takes several batches. The new epoch comes first: a coordinator that loads the
        # group after some of them knows that its target is outdated.
        return [*appends([new_epoch, *records], shard.config.max_batch_bytes), *effects]
    return [*checked_append(shard, [*records, new_epoch]), *effects]
