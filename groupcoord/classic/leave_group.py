"""LeaveGroup: members leave, one or several at once (KIP-345); the rest rebalances once."""

from collections.abc import Callable

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import LeaveGroup, MemberIdentity
from ottla.groupcoord.classic.member_results import LeaveGroupResult, MemberResult
from ottla.groupcoord.classic.rebalance import (
    answer_removed,
    maybe_complete_join,
    prepare_rebalance,
    session_key,
)
from ottla.groupcoord.effects import CancelTimer, Effect, Reply
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause
from ottla.logstore.words.errors import ErrorCode, KafkaError


def leave_group(
    shard: GroupShard, group: ClassicGroup | None, command: LeaveGroup, now_ms: int
) -> list[Effect]:
    effects: list[Effect] = []
    results = leave_each(command, lambda identity: effects.extend(_remove(group, identity, now_ms)))
    if group is not None:
        if any(member.error is ErrorCode.NONE for member in results):
            effects += _after_leaving(shard, group, now_ms)
        shard.drop_if_unused(group)
    return [*effects, Reply(command.token, LeaveGroupResult(members=results))]


def leave_each(command: LeaveGroup, leave: Callable[[MemberIdentity], None]) -> list[MemberResult]:
    """Call `leave` for each member of the request.

    Return a result for each, with the error code that it raised, or NONE.
    """
    results: list[MemberResult] = []
    for identity in command.members:
        error = ErrorCode.NONE
        try:
            leave(identity)
        except KafkaError as refused:
            error = refused.code
        results.append(MemberResult(identity.member_id, identity.group_instance_id, error))
    return results


def _remove(group: ClassicGroup | None, identity: MemberIdentity, now_ms: int) -> list[Effect]:
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group does not exist")
    member_id = identity.member_id
    if not member_id:
        # An administrator removes a static member by its instance id, not knowing its member id.
        instance_id = identity.group_instance_id
        member_id = "" if instance_id is None else group.static_members.get(instance_id, "")
        if not member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "no member has this group.instance.id")
    if member_id in group.pending_join_members:
        if group.state is not GroupState.EMPTY:
            group.note(Cause.MEMBER_LEFT, now_ms, member_id=member_id, reason=identity.reason or "")
        group.remove(member_id)
        return [CancelTimer(session_key(group, member_id))]
    member = group.validate_member(member_id, identity.group_instance_id)
    effects = [CancelTimer(session_key(group, member_id)), *answer_removed(group, member)]
    cause = Cause.MEMBER_LEFT if identity.member_id else Cause.MEMBER_REMOVED
    group.note(cause, now_ms, member, reason=identity.reason or "")
    group.remove(member_id)
    return effects


def _after_leaving(shard: GroupShard, group: ClassicGroup, now_ms: int) -> list[Effect]:
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        return prepare_rebalance(shard, group, now_ms)
    return maybe_complete_join(group, now_ms)
