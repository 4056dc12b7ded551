"""Wakes held heartbeats whose members may have something to learn from a change."""

from collections.abc import Sequence

from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat, TopicsChanged
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    ConsumerGroupTargetAssignmentMetadataRecord,
)
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.consumer.reconciliation import NO_OWNER
from ottla.groupcoord.effects import Effect, StartTimer, TimerKey
from ottla.groupcoord.held_heartbeats import HeldCommand
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timer_commands import WakeHeldHeartbeats

# Heartbeats decided again in one turn of the loop: some 3 ms.
MAX_WOKEN = 100


def wake_for_records(shard: GroupShard, records: Sequence[GroupRecord]) -> list[Effect]:
    """Wake the heartbeats of members that may have something to learn from these records, just replayed."""
    if not shard.held_heartbeats:
        return []
    groups: dict[str, None] = {}  # groups all of whose members may have something to learn
    members: dict[str, dict[str, None]] = {}  # group id -> member ids
    for record in records:
        match record:
            case ConsumerGroupMetadataRecord() | ConsumerGroupTargetAssignmentMetadataRecord():
                groups[record.group_id] = None  # also of a group that has just changed its protocol
            case ConsumerGroupMemberMetadataRecord() | ConsumerGroupCurrentMemberAssignmentRecord():
                members.setdefault(record.group_id, {})[record.member_id] = None
            case _:
                pass
    effects: list[Effect] = []
    for group_id in groups:
        effects += wake_group(shard, group_id)
    for group_id, member_ids in members.items():
        if group_id not in groups:
            effects += _wake(shard, group_id, shard.held_heartbeats.affected_by(group_id, member_ids))
    return effects


def wake_group(shard: GroupShard, group_id: str) -> list[Effect]:
    """Wake the held heartbeats of a group whose members may have something to learn."""
    return _wake(shard, group_id, shard.held_heartbeats.heartbeats_of_group(group_id))


def wake_for_topics(shard: GroupShard, command: TopicsChanged) -> list[Effect]:
    """Wake one heartbeat of each group that reads changed topics: groups look at topics at a heartbeat."""
    effects: list[Effect] = []
    for group_id in shard.held_heartbeats.groups():
        group = shard.consumer_group(group_id)
        if group is not None and (group.is_metadata_stale or (group.regexes and command.has_new_topics)):
            effects.append(_wake_later(group_id))
    return effects


def _wake(shard: GroupShard, group_id: str, held: list[HeldCommand]) -> list[Effect]:
    group = shard.consumer_group(group_id)
    woken = held if group is None else [command for command in held if _must_answer(group, command)]
    if group is not None and not woken and _needs_a_heartbeat(shard, group):
        woken = held[:1]  # one heartbeat, of any member, does it for the whole group
    effects = shard.held_heartbeats.wake(woken[:MAX_WOKEN])
    if len(woken) > MAX_WOKEN:
        effects.append(_wake_later(group_id))
    return effects


def _wake_later(group_id: str) -> StartTimer[WakeHeldHeartbeats]:
    return StartTimer(TimerKey("wake", group_id), 0, WakeHeldHeartbeats(group_id=group_id))


def _needs_a_heartbeat(shard: GroupShard, group: ConsumerGroup) -> bool:
    """Return True if the next heartbeat must look at the topics, or have a target assignment made."""
    if group.is_metadata_stale or group.group_epoch > group.assignment_epoch:
        return True
    return any(
        resolved.version < shard.newest_topics_version and regex not in group.given_up_regexes
        for regex, resolved in group.regexes.items()
    )


def is_up_to_date(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return True if the member has no step to take and nothing to learn now."""
    if member.is_reconciled_to(group.assignment_epoch):
        return True
    return (
        member.state is MemberState.UNRELEASED_PARTITIONS
        and member.member_epoch == group.assignment_epoch
        and not _has_free_partition(group, member)
    )


def _must_answer(group: ConsumerGroup, command: object) -> bool:
    if not isinstance(command, ConsumerGroupHeartbeat):
        return True  # its group was a classic one when it came
    member = group.members.get(command.member_id)
    if member is None or member.member_epoch != command.member_epoch:
        return True
    return not is_up_to_date(group, member)


def _has_free_partition(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return True if a partition of the member's target that it lacks has no owner now."""
    for topic_id, partitions in group.target_of(member.member_id, member.instance_id).items():
        owned = member.assigned.get(topic_id, ())
        for partition in partitions:
            if partition not in owned and group.owner_epoch(topic_id, partition) == NO_OWNER:
                return True
    return False
