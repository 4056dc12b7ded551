"""Raises the group epoch after a change of a member, and has a target made for the new epoch (KIP-848)."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_membership import (
    assign_key,
    assign_timer,
    epoch_record,
    timeline_event,
)
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupPartitionMetadataRecord
from ottla.groupcoord.consumer.target_assignment import compute_target, is_large_target
from ottla.groupcoord.effects import AddTimelineEvent, CancelTimer, Effect
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause


def bump_group_epoch(
    shard: GroupShard,
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    dropped: Sequence[str],
    records: list[GroupRecord],
    *,
    bumps: bool,
) -> int:
    """Return the group epoch after the change: one more if it `bumps` the epoch, or if the topics changed.

    The records of that are added to `records`. `dropped` are expressions that have no subscribers any more.
    """
    leaving = group.static_member(after.instance_id) or group.members.get(before.member_id)
    names = group.topics_after([leaving] if leaving else [], [after], dict.fromkeys(dropped))
    metadata_hash = group_hash(names, shard.topics)
    epoch = group.group_epoch
    if bumps or metadata_hash != group.metadata_hash:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch, metadata_hash))
    group.is_metadata_stale = False
    group.changed_topics.clear()
    if group.has_partition_metadata:
        records.append(ConsumerGroupPartitionMetadataRecord(group.group_id, None))
    return epoch


def reason_of_epoch(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    now_ms: int,
    *,
    replaces: bool,
    bumps: bool,
    changed_topics: Collection[str],
    reason: str = "",
) -> AddTimelineEvent:
    """Return the cause of the new epoch for the timeline: a change of a member, or of topics."""
    if not bumps:
        return timeline_event(group, Cause.TOPICS_CHANGED, now_ms, reason=", ".join(sorted(changed_topics)))
    if replaces:
        return timeline_event(group, Cause.STATIC_REPLACED, now_ms, after, reason)
    is_known = before.member_id in group.members
    cause = Cause.SUBSCRIPTION_CHANGED if is_known else Cause.MEMBER_JOINED
    return timeline_event(group, cause, now_ms, after, reason)


class TargetOfMember(NamedTuple):
    """The target of a member for an epoch, and the effects on the timer for a deferred target."""

    epoch: int
    assignment: Assignment
    effects: list[Effect]


def update_target_assignment(
    shard: GroupShard,
    group: ConsumerGroup,
    epoch: int,
    before: ConsumerMember,
    after: ConsumerMember,
    records: list[GroupRecord],
    now_ms: int,
) -> TargetOfMember:
    """Return the target of the member, after making a new one if the group epoch is newer than the last.

    A new one is made at most once an assignment interval. If it must wait for that or is large, a timer makes
    it, and the member keeps its present target. Records of a new one are added to `records`.
    """
    kept = group.target_of(after.member_id, after.instance_id)
    if epoch <= group.assignment_epoch:
        return TargetOfMember(group.assignment_epoch, kept, [])
    interval_ms = shard.group_config(group.group_id).consumer_assignment_interval_ms
    if group.assignment_timestamp_ms and interval_ms:
        left_ms = group.assignment_timestamp_ms + interval_ms - now_ms
        # More than the interval: the clock was set back since, perhaps by hours.
        if 0 < left_ms <= interval_ms:
            # Kafka leaves it to the next heartbeat after the interval; the timer does not wait for one.
            return TargetOfMember(group.assignment_epoch, kept, [assign_timer(group, left_ms)])
    if is_large_target(group, shard.topics, shard.config.largest_inline_target, after):
        return TargetOfMember(group.assignment_epoch, kept, [assign_timer(group, 0)])
    known = group.static_member(after.instance_id) or group.members.get(before.member_id)
    assignor = group.preferred_assignor(shard.config.group_consumer_assignors, known, after)
    change = compute_target(group, shard.topics, epoch=epoch, assignor=assignor, now_ms=now_ms, changed=after)
    records += change.records
    return TargetOfMember(epoch, change.targets.get(after.member_id, {}), [CancelTimer(assign_key(group))])
