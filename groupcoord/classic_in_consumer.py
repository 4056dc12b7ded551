"""Members of the classic protocol at a consumer group: as Kafka with its migration policy `disabled`."""

from groupcoord.effects import Effect, Reply
from groupcoord.member_commands import Heartbeat, JoinGroup, LeaveGroup, MemberCommand, SyncGroup
from groupcoord.member_results import (
    HeartbeatResult,
    JoinGroupResult,
    LeaveGroupResult,
    LeftMember,
    SyncGroupResult,
)
from logstore.errors import ErrorCode


def refuse_classic_member(command: MemberCommand) -> list[Effect]:
    """The group is of the other protocol, and none of its members speaks this one."""
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    match command:
        case JoinGroup(token=token, member_id=member_id):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            return [Reply(token, JoinGroupResult(error=error, member_id=member_id))]
        case SyncGroup(token=token):
            return [Reply(token, SyncGroupResult(error=unknown))]
        case Heartbeat(token=token):
            return [Reply(token, HeartbeatResult(error=unknown))]
        case LeaveGroup(token=token, members=members):
            left = [LeftMember(one.member_id, one.group_instance_id, unknown) for one in members]
            return [Reply(token, LeaveGroupResult(members=left))]
