"""ConsumerGroupDescribe: the consumer groups of a shard, for administrators."""

from ottla.groupcoord.admin_commands import DescribeConsumerGroups
from ottla.groupcoord.assignment import Assignment, listed
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_results import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    DescribeConsumerGroupsResult,
    NamedPartitions,
)
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.shard import Group, GroupShard
from ottla.groupcoord.topics_view import TopicsView
from ottla.logstore.words.errors import ErrorCode


def describe_consumer_groups(shard: GroupShard, command: DescribeConsumerGroups) -> list[Effect]:
    groups = [_describe(shard, group_id, shard.group(group_id)) for group_id in command.group_ids]
    return [Reply(command.token, DescribeConsumerGroupsResult(groups=groups), shows_state=True)]


def _describe(shard: GroupShard, group_id: str, group: Group | None) -> ConsumerGroupDescription:
    if not isinstance(group, ConsumerGroup):
        problem = "not found." if group is None else "is not a consumer group."
        return ConsumerGroupDescription(
            group_id=group_id,
            error=ErrorCode.GROUP_ID_NOT_FOUND,
            detail=f"Group {group_id} {problem}",
            state=GroupState.DEAD.value,
        )
    return ConsumerGroupDescription(
        group_id=group_id,
        state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.preferred_assignor(shard.config.group_consumer_assignors, None, None),
        members=[_describe_member(group, member, shard.topics) for member in group.members.values()],
        rebalances=group.timeline.last(),
    )


def _describe_member(
    group: ConsumerGroup, member: ConsumerMember, topics: TopicsView
) -> ConsumerMemberDescription:
    return ConsumerMemberDescription(
        member=member,
        assigned=_named(member.held, topics),
        target=_named(group.targets.get(member.member_id, {}), topics),
    )


def _named(assignment: Assignment, topics: TopicsView) -> list[NamedPartitions]:
    """Return the partitions with topic names, without topics that are gone."""
    found = [(topics.by_id(topic_id), topic_id, partitions) for topic_id, partitions in listed(assignment)]
    return [
        NamedPartitions(topic_id, topic.name, partitions)
        for topic, topic_id, partitions in found
        if topic is not None
    ]
