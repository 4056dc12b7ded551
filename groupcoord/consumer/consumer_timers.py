"""Timers of consumer groups: sessions, revocations, and those that a loaded group needs."""

from ottla.groupcoord.consumer.consumer_commands import ExpireConsumerSession, ExpireRevocation, TopicsChanged
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import LEAVE_STATIC_EPOCH
from ottla.groupcoord.consumer.consumer_membership import (
    assign_timer,
    fence_members,
    revocation_timer,
    start_consumer_session,
)
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.consumer.migration_commands import ExpireMemberJoin, ExpireMemberSync
from ottla.groupcoord.effects import Effect
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.groupcoord.timeline import Cause


def expire_consumer_session(shard: GroupShard, command: ExpireConsumerSession, now_ms: int) -> list[Effect]:
    """Remove a member that was silent for too long: the others share its partitions."""
    group = shard.consumer_group(command.group_id)
    member = None if group is None else group.members.get(command.member_id)
    if group is None or member is None:
        return []  # left while the timer was in flight
    return fence_members(shard, group, [member], now_ms, Cause.SESSION_EXPIRED)


def expire_revocation(shard: GroupShard, command: ExpireRevocation, now_ms: int) -> list[Effect]:
    """Remove a member that did not give up its partitions in time: others wait for them."""
    group = shard.consumer_group(command.group_id)
    member = None if group is None else group.members.get(command.member_id)
    if group is None or member is None or member.member_epoch != command.member_epoch:
        return []
    return fence_members(shard, group, [member], now_ms, Cause.REVOCATION_TIMED_OUT)


def expire_member_join(shard: GroupShard, command: ExpireMemberJoin, now_ms: int) -> list[Effect]:
    """Remove a classic member that had to join again and did not in time."""
    return _expire_classic(shard, command, now_ms, Cause.REBALANCE_TIMED_OUT)


def expire_member_sync(shard: GroupShard, command: ExpireMemberSync, now_ms: int) -> list[Effect]:
    """Remove a classic member that joined and did not ask for its assignment in time."""
    return _expire_classic(shard, command, now_ms, Cause.SYNC_TIMED_OUT)


def _expire_classic(
    shard: GroupShard, command: ExpireMemberJoin | ExpireMemberSync, now_ms: int, cause: Cause
) -> list[Effect]:
    group = shard.consumer_group(command.group_id)
    member = None if group is None else group.members.get(command.member_id)
    if group is None or member is None or member.classic is None:
        return []
    return fence_members(shard, group, [member], now_ms, cause)


def start_consumer_group(shard: GroupShard, group: ConsumerGroup) -> list[Effect]:
    """Start the timers of a loaded group: sessions, revocations, and a target that is due."""
    effects: list[Effect] = []
    for member in group.members.values():
        effects.append(start_consumer_session(shard, group, member.member_id, member.classic))
        if member.classic is not None:
            continue  # the time for its next join begins when it has to join
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch != LEAVE_STATIC_EPOCH:
            effects.append(revocation_timer(group, member))
    if group.members and group.group_epoch > group.assignment_epoch:
        effects.append(
            assign_timer(group, shard.group_config(group.group_id).consumer_assignment_interval_ms)
        )
    return effects


def topics_changed(shard: GroupShard, command: TopicsChanged) -> list[Effect]:
    """Update the topics of the shard; groups that read changed ones look at them at their next heartbeat."""
    shard.topics = command.topics
    if command.changed:
        shard.recent_topics.add(command.topics.version, command.changed)
    else:
        shard.recent_topics.restart(command.topics.version)  # the node does not know what changed
    if command.has_new_topics:
        shard.newest_topics_version = command.topics.version
    for name in sorted(command.changed):
        for group_id in shard.groups_by_topic.get(name, ()):
            group = shard.group(group_id)
            if isinstance(group, ConsumerGroup | ShareGroup):
                group.is_metadata_stale = True
            if isinstance(group, ConsumerGroup):
                group.changed_topics.add(name)
    return []
