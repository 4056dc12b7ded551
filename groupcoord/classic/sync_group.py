"""SyncGroup: the leader brings the assignments, every member gets its own.

An assignment is opaque bytes between the members. A member that the leader left out gets an empty one.
"""

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import to_record
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import SyncGroup
from ottla.groupcoord.classic.member_results import SyncGroupResult
from ottla.groupcoord.classic.rebalance import (
    fail_waiting_syncs,
    note_sync_request,
    prepare_rebalance,
    start_session,
    supersede,
)
from ottla.groupcoord.effects import Append, Effect, Reply
from ottla.groupcoord.member_bytes import check_members
from ottla.groupcoord.record_codec import record_size_bytes
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause
from ottla.logstore.words.errors import ErrorCode, KafkaError


def sync_group(
    shard: GroupShard, group: ClassicGroup | None, command: SyncGroup, now_ms: int
) -> list[Effect]:
    if group is None or group.state is GroupState.EMPTY:
        return _refused(command, ErrorCode.UNKNOWN_MEMBER_ID)
    try:
        member = group.validate_member(command.member_id, command.group_instance_id)
        group.check_generation(command.generation_id)
    except KafkaError as error:
        return _refused(command, error.code)
    if _differs(command.protocol_type, group.protocol_type) or _differs(
        command.protocol_name, group.protocol_name
    ):
        return _refused(command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # KIP-559
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            return _refused(command, ErrorCode.REBALANCE_IN_PROGRESS)
        case GroupState.COMPLETING_REBALANCE:
            effects = supersede(
                member.sync_token, SyncGroupResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
            ) + note_sync_request(group, member)
            member.sync_token = command.token
            if group.is_leader(member.member_id):
                effects += _assign(shard, group, command, now_ms)
            return effects
        case GroupState.STABLE:
            result = _assigned(group, member.assignment)
            return [*note_sync_request(group, member), Reply(command.token, result, shows_state=True)]
        case GroupState.DEAD:
            raise AssertionError("a dead group is not kept")


def _assign(shard: GroupShard, group: ClassicGroup, command: SyncGroup, now_ms: int) -> list[Effect]:
    """Append the new generation; with that the group is stable, and all waiting syncs are answered."""
    given = dict(command.assignments)
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    record = to_record(group, assignments, now_ms)
    if record_size_bytes(record) > shard.config.max_batch_bytes:
        # The log would reject it. The members get an error and try again, as with Kafka.
        effects = fail_waiting_syncs(group, ErrorCode.UNKNOWN_SERVER_ERROR)
        group.note(Cause.ASSIGNMENT_TOO_LARGE, now_ms)
        return effects + prepare_rebalance(shard, group, now_ms)
    try:
        before = sum(len(member.assignment) for member in group.members.values())
        check_members(shard.member_bytes, sum(map(len, assignments.values())) - before, is_member=True)
    except KafkaError as error:
        return fail_waiting_syncs(group, error.code) + prepare_rebalance(shard, group, now_ms)
    group.timeline.end(now_ms, group.generation_id, len(group.members))
    effects = [Append([record])]
    for member in group.members.values():
        token, member.sync_token = member.sync_token, None
        if token is not None:
            effects.append(Reply(token, _assigned(group, assignments[member.member_id])))
            effects.append(start_session(group, member))
    return effects


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResult:
    return SyncGroupResult(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def _differs(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual


def _refused(command: SyncGroup, error: ErrorCode) -> list[Effect]:
    return [Reply(command.token, SyncGroupResult(error=error))]
