"""ShareGroupDescribe: the share groups of a shard, for administrators."""

from collections.abc import Iterable, Mapping

from ottla.groupcoord.assignment import listed
from ottla.groupcoord.assignors.simple_assignor import SIMPLE
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.consumer.consumer_results import NamedPartitions
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.shard import Group, GroupShard
from ottla.groupcoord.share.share_commands import DescribeShareGroups
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.groupcoord.share.share_results import (
    DescribeShareGroupsResult,
    ShareGroupDescription,
    ShareMemberDescription,
)
from ottla.groupcoord.topics_view import TopicsView
from ottla.logstore.words.errors import ErrorCode


def describe_share_groups(shard: GroupShard, command: DescribeShareGroups) -> list[Effect]:
    groups = [_describe(shard, group_id, shard.group(group_id)) for group_id in command.group_ids]
    return [Reply(command.token, DescribeShareGroupsResult(groups=groups), shows_state=True)]


def _describe(shard: GroupShard, group_id: str, group: Group | None) -> ShareGroupDescription:
    if not isinstance(group, ShareGroup):
        problem = "not found." if group is None else "is not a share group."
        return ShareGroupDescription(
            group_id=group_id,
            error=ErrorCode.GROUP_ID_NOT_FOUND,
            detail=f"Group {group_id} {problem}",
            state=GroupState.DEAD.value,
        )
    return ShareGroupDescription(
        group_id=group_id,
        state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=SIMPLE,
        members=[
            ShareMemberDescription(member, named_partitions(member.assigned, shard.topics))
            for member in group.members.values()
        ],
    )


def named_partitions(partitions: Mapping[bytes, Iterable[int]], topics: TopicsView) -> list[NamedPartitions]:
    """Return the partitions with topic names, without topics that are gone."""
    found = [(topics.by_id(topic_id), topic_id, numbers) for topic_id, numbers in listed(partitions)]
    return [
        NamedPartitions(topic_id, topic.name, numbers)
        for topic, topic_id, numbers in found
        if topic is not None
    ]
