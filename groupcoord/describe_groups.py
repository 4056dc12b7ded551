"""DescribeGroups and ListGroups: the groups of a shard, for administrators."""

from ottla.groupcoord.admin_commands import DescribeGroups, ListGroups
from ottla.groupcoord.admin_results import (
    DescribeGroupsResult,
    GroupDescription,
    ListedGroup,
    ListGroupsResult,
    MemberDescription,
)
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.shard import Group, GroupShard
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.logstore.words.errors import ErrorCode

CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"
SHARE_TYPE = "share"  # also Kafka's name for the protocol type of a share group


def describe_groups(shard: GroupShard, command: DescribeGroups) -> list[Effect]:
    groups = [_describe(group_id, shard.group(group_id)) for group_id in command.group_ids]
    return [Reply(command.token, DescribeGroupsResult(groups=groups), shows_state=True)]


def list_groups(shard: GroupShard, command: ListGroups) -> list[Effect]:
    groups = [
        listed
        for listed in map(_listed, shard.groups.values())
        if (not command.states or listed.state.lower() in command.states)
        and (not command.types or listed.group_type in command.types)
    ]
    return [Reply(command.token, ListGroupsResult(groups=groups), shows_state=True)]


def _listed(group: Group) -> ListedGroup:
    if isinstance(group, ClassicGroup):
        return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)
    if isinstance(group, ShareGroup):
        return ListedGroup(group.group_id, SHARE_TYPE, group.state.value, SHARE_TYPE)
    return ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, CONSUMER_TYPE)


def _describe(group_id: str, group: Group | None) -> GroupDescription:
    if not isinstance(group, ClassicGroup):
        problem = "not found." if group is None else "is not a classic group."
        return GroupDescription(
            group_id=group_id,
            error=ErrorCode.GROUP_ID_NOT_FOUND,
            detail=f"Group {group_id} {problem}",
            state=GroupState.DEAD.value,
        )
    # Metadata of members means something only under the protocol that a stable group has chosen.
    chosen = group.protocol_name if group.state is GroupState.STABLE else None
    members = [
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.metadata(chosen) if chosen is not None else b"",
            member.assignment,
        )
        for member in group.members.values()
    ]
    return GroupDescription(
        group_id=group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=chosen or "",
        members=members,
        rebalances=group.timeline.last(),
    )
