"""Records and timers of members of share groups that join, leave or are fenced."""

from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.effects import CancelTimer, Effect, StartTimer, TimerKey
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_commands import ExpireShareSession
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.groupcoord.share.share_member import ShareMember
from ottla.groupcoord.share.share_records import (
    ShareGroupCurrentMemberAssignmentRecord,
    ShareGroupMemberMetadataRecord,
    ShareGroupMetadataRecord,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMemberRecord,
)


def share_session_key(group: ShareGroup, member_id: str) -> TimerKey:
    return TimerKey("session", group.group_id, member_id)


def start_share_session(
    shard: GroupShard, group: ShareGroup, member_id: str
) -> StartTimer[ExpireShareSession]:
    """Renew the member's session."""
    timeout_ms = shard.group_config(group.group_id).share_session_timeout_ms
    command = ExpireShareSession(group_id=group.group_id, member_id=member_id)
    return StartTimer(share_session_key(group, member_id), timeout_ms, command)


def share_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ShareGroupMetadataRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ShareGroupMetadataRecord(group_id, value)


def fence_share_member(shard: GroupShard, group: ShareGroup, member: ShareMember) -> list[Effect]:
    """Remove a member; the others learn of a new target when one of them sends its next heartbeat."""
    group_id, member_id = group.group_id, member.member_id
    metadata_hash = group_hash(group.topics_after(member, None), shard.topics)
    records: list[GroupRecord] = [
        ShareGroupCurrentMemberAssignmentRecord(group_id, member_id, None),
        ShareGroupTargetAssignmentMemberRecord(group_id, member_id, None),
        ShareGroupMemberMetadataRecord(group_id, member_id, None),
        share_epoch_record(group_id, group.group_epoch + 1, metadata_hash),
    ]
    effects = checked_append(shard, records)
    shard.share_rebalances += 1
    return [*effects, CancelTimer(share_session_key(group, member_id))]


def expire_share_session(shard: GroupShard, command: ExpireShareSession) -> list[Effect]:
    """Remove a member that was silent for too long: the others share its partitions."""
    group = shard.share_group(command.group_id)
    member = None if group is None else group.members.get(command.member_id)
    if group is None or member is None:
        return []  # left while the timer was in flight
    return fence_share_member(shard, group, member)


def start_share_group(shard: GroupShard, group: ShareGroup) -> list[Effect]:
    """Start the sessions of a loaded group: each member has its session timeout to send a heartbeat."""
    return [start_share_session(shard, group, member_id) for member_id in group.members]
