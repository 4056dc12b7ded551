"""What has just changed for members whose heartbeats wait (`held_heartbeats`), by the records that say so."""

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
from ottla.groupcoord.shard import Shard
from ottla.groupcoord.timer_commands import ResumeHeld

# Heartbeats decided again in one turn of the loop: some 3 ms.
MAX_RESUMED = 100


def tell_news(shard: Shard, records: Sequence[GroupRecord]) -> list[Effect]:
    """These were just replayed: let the members hear of them that have something to learn."""
    if not shard.held:
        return []
    everybody: dict[str, None] = {}  # groups all of whose members may have news
    some: dict[str, dict[str, None]] = {}  # members by group
    for record in records:
        match record:
            case ConsumerGroupMetadataRecord() | ConsumerGroupTargetAssignmentMetadataRecord():
                everybody[record.group_id] = None  # also of a group that has just changed its protocol
            case ConsumerGroupMemberMetadataRecord() | ConsumerGroupCurrentMemberAssignmentRecord():
                some.setdefault(record.group_id, {})[record.member_id] = None
            case _:
                pass
    effects: list[Effect] = []
    for group_id in everybody:
        effects += resume_held(shard, group_id)
    for group_id, member_ids in some.items():
        if group_id not in everybody:
            effects += _resume(shard, group_id, shard.held.concerned(group_id, member_ids))
    return effects


def resume_held(shard: Shard, group_id: str) -> list[Effect]:
    """Decide the heartbeats of the group again that may have news."""
    return _resume(shard, group_id, shard.held.of_group(group_id))


def look_at_topics(shard: Shard, command: TopicsChanged) -> list[Effect]:
    """Groups that read what changed look at it at a heartbeat; where all of them wait, at one of those."""
    effects: list[Effect] = []
    for group_id in shard.held.groups():
        group = shard.consumer_group(group_id)
        if group is not None and (group.is_metadata_stale or (group.regexes and command.has_new_topics)):
            effects.append(_resume_later(group_id))
    return effects


def _resume(shard: Shard, group_id: str, held: list[HeldCommand]) -> list[Effect]:
    group = shard.consumer_group(group_id)
    told = held if group is None else [command for command in held if _has_news(group, command)]
    if group is not None and not told and _is_unsettled(shard, group):
        told = held[:1]  # whoever is decided anew finds what all wait for
    effects = shard.held.resume(told[:MAX_RESUMED])
    if len(told) > MAX_RESUMED:
        effects.append(_resume_later(group_id))
    return effects


def _resume_later(group_id: str) -> StartTimer[ResumeHeld]:
    return StartTimer(TimerKey("news", group_id), 0, ResumeHeld(group_id=group_id))


def _is_unsettled(shard: Shard, group: ConsumerGroup) -> bool:
    """Whether the next heartbeat has to look at the topics, or to have a target made."""
    if group.is_metadata_stale or group.group_epoch > group.assignment_epoch:
        return True
    return any(
        resolved.version < shard.newest_topics_version and regex not in group.given_up_regexes
        for regex, resolved in group.regexes.items()
    )


def waits_for_news(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether there is nothing that the member should do, or be told, now."""
    if member.is_reconciled_to(group.assignment_epoch):
        return True
    return (
        member.state is MemberState.UNRELEASED_PARTITIONS
        and member.member_epoch == group.assignment_epoch
        and not _has_free_partition(group, member)
    )


def _has_news(group: ConsumerGroup, command: object) -> bool:
    if not isinstance(command, ConsumerGroupHeartbeat):
        return True  # its group was a classic one when it came
    member = group.members.get(command.member_id)
    if member is None or member.member_epoch != command.member_epoch:
        return True
    return not waits_for_news(group, member)


def _has_free_partition(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether nobody owns any more some of what the member shall have."""
    for topic_id, partitions in group.target_of(member.member_id, member.instance_id).items():
        owned = member.assigned.get(topic_id, ())
        for partition in partitions:
            if partition not in owned and group.owner_epoch(topic_id, partition) == NO_OWNER:
                return True
    return False
