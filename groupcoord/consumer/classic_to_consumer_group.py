"""Requests of members of the classic protocol to a consumer group, translated (KIP-848).

    JoinGroup   as a heartbeat with all fields: a new epoch, a new target, one step of this member
    SyncGroup   the partitions that the member owns now
    Heartbeat   REBALANCE_IN_PROGRESS, as long as the member has a step to take
    LeaveGroup  as a heartbeat that leaves

The member epoch is the generation; the group has no leader. A member that revokes partitions joins once more
without them; a member that has to join again, or to sync, has its rebalance timeout for it.
"""

from ottla.groupcoord.assignment import without_epochs
from ottla.groupcoord.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE, encode_assignment, version_of
from ottla.groupcoord.classic.leave_group import leave_each
from ottla.groupcoord.classic.member_commands import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    MemberCommand,
    MemberIdentity,
    SyncGroup,
)
from ottla.groupcoord.classic.member_results import HeartbeatResult, LeaveGroupResult, SyncGroupResult
from ottla.groupcoord.consumer.classic_join_to_consumer_group import classic_join_to_consumer_group
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ClassicPart, ConsumerMember
from ottla.groupcoord.consumer.consumer_membership import (
    fence_members,
    member_join_key,
    member_sync_key,
    start_consumer_session,
)
from ottla.groupcoord.consumer.downgrade_group import named
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.consumer.migration_commands import ExpireMemberJoin
from ottla.groupcoord.effects import CancelTimer, Effect, Reply, StartTimer
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause
from ottla.logstore.words.errors import ErrorCode, KafkaError


def classic_request_to_consumer_group(
    shard: GroupShard, group: ConsumerGroup, command: MemberCommand, now_ms: int
) -> list[Effect]:
    match command:
        case JoinGroup():
            return classic_join_to_consumer_group(shard, group, command, now_ms)
        case SyncGroup():
            return _sync(shard, group, command)
        case Heartbeat():
            return _heartbeat(shard, group, command)
        case LeaveGroup():
            return _leave(shard, group, command, now_ms)


# ---- SyncGroup and Heartbeat -------------------------------------------------------------------------------


def _sync(shard: GroupShard, group: ConsumerGroup, command: SyncGroup) -> list[Effect]:
    member, classic = _classic_member(group, command)
    for requested, actual in (
        (command.protocol_type, CONSUMER_PROTOCOL_TYPE),
        (command.protocol_name, classic.protocols[0].name),
    ):
        if requested is not None and requested != actual:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the protocol is {actual}, not {requested}"
            )
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        # One that revokes has joined already; it takes what it keeps, and then joins once more.
        rebalancing = SyncGroupResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
        return [*_wait_for_join(group, member), Reply(command.token, rebalancing)]
    assigned = named(without_epochs(member.assigned), shard.topics)
    result = SyncGroupResult(
        protocol_type=command.protocol_type,
        protocol_name=command.protocol_name,
        assignment=encode_assignment(version_of(classic.protocols[0].metadata), assigned),
    )
    return [
        CancelTimer(member_sync_key(group, member.member_id)),
        start_consumer_session(shard, group, member.member_id, classic),
        Reply(command.token, result, shows_state=True),
    ]


def _heartbeat(shard: GroupShard, group: ConsumerGroup, command: Heartbeat) -> list[Effect]:
    member, classic = _classic_member(group, command)
    effects: list[Effect] = [start_consumer_session(shard, group, member.member_id, classic)]
    must_rejoin = (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_unreleased(member))
    )
    if not must_rejoin:
        return [*effects, Reply(command.token, HeartbeatResult())]
    rebalancing = HeartbeatResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
    return [*effects, *_wait_for_join(group, member), Reply(command.token, rebalancing)]


def _classic_member(
    group: ConsumerGroup, command: SyncGroup | Heartbeat
) -> tuple[ConsumerMember, ClassicPart]:
    """Return the member of a request; UNKNOWN_MEMBER_ID also for one of the consumer protocol."""
    member = group.member_of(command.member_id, command.group_instance_id)
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol."
        )
    if command.generation_id != member.member_epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {command.generation_id} is not equal to the member epoch "
            f"{member.member_epoch} of member {member.member_id}.",
        )
    return member, member.classic


def _wait_for_join(group: ConsumerGroup, member: ConsumerMember) -> list[Effect]:
    """Start the timer within which a member must send JoinGroup again, unless it is running."""
    if member.member_id in group.awaited_joins:
        return []
    group.awaited_joins.add(member.member_id)
    command = ExpireMemberJoin(group_id=group.group_id, member_id=member.member_id)
    return [
        StartTimer(member_join_key(group, member.member_id), max(member.rebalance_timeout_ms, 0), command)
    ]


# ---- LeaveGroup --------------------------------------------------------------------------------------------


def _leave(shard: GroupShard, group: ConsumerGroup, command: LeaveGroup, now_ms: int) -> list[Effect]:
    """Remove the named members, those of the consumer protocol too, all at once."""
    leaving: dict[str, ConsumerMember] = {}
    identities: list[MemberIdentity] = []

    def leave(identity: MemberIdentity) -> None:
        member = _named_by(group, identity)
        leaving[member.member_id] = member
        identities.append(identity)

    results = leave_each(command, leave)
    effects: list[Effect] = []
    if leaving:
        first = identities[0]
        cause = Cause.MEMBER_LEFT if first.member_id else Cause.MEMBER_REMOVED
        effects = fence_members(shard, group, list(leaving.values()), now_ms, cause, first.reason or "")
    return [*effects, Reply(command.token, LeaveGroupResult(members=results))]


def _named_by(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.member_id or identity.group_instance_id is None:
        return group.member_of(identity.member_id, identity.group_instance_id)
    # An administrator removes a static member by its instance id, not knowing its member id.
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {identity.group_instance_id} is unknown.")
    return member
