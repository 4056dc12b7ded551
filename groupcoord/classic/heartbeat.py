"""Heartbeat: a member is alive, and learns whether it has to join again; it may wait to learn it."""

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_member import ClassicMember
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.heartbeat_pace import HeartbeatPace
from ottla.groupcoord.classic.member_commands import Heartbeat
from ottla.groupcoord.classic.member_results import HeartbeatResult
from ottla.groupcoord.classic.rebalance import start_session
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.hold_phase import HoldPhase
from ottla.groupcoord.shard import Shard
from ottla.logstore.errors import ErrorCode, KafkaError

_ALIVE = HeartbeatResult()
_JOIN_AGAIN = HeartbeatResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
# Of a member's session: it must have the time for several heartbeats left.
HELD_SHARE_OF_SESSION = 4


def heartbeat(shard: Shard, group: ClassicGroup | None, command: Heartbeat, now_ms: int) -> list[Effect]:
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group")
    member = group.validate_member(command.member_id, command.group_instance_id)
    group.check_generation(command.generation_id)
    # While the group waits for the leader's assignment there is nothing to do but wait: that is no
    # REBALANCE_IN_PROGRESS.
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    result = _JOIN_AGAIN if is_rebalancing else _ALIVE
    if not command.hold_ms:
        return [start_session(group, member), Reply(command.token, result)]
    effects: list[Effect] = []
    if command.phase is HoldPhase.ARRIVED:
        effects = [start_session(group, member), *shard.held.end(group.group_id, member.member_id)]
    wait_ms = _wait_ms(group, member, command, now_ms)
    if wait_ms:
        return effects + shard.held.hold(command, wait_ms)
    return [*effects, Reply(command.token, result)]


def _wait_ms(group: ClassicGroup, member: ClassicMember, command: Heartbeat, now_ms: int) -> int:
    """For how long this one may wait; 0 if it is to be answered now."""
    pace = member.pace = member.pace or HeartbeatPace()
    if command.phase is HoldPhase.ARRIVED:
        pace.beat(now_ms)
    if group.state is not GroupState.STABLE:
        pace.pause()
        return 0
    if member.is_static:
        return 0  # it does not leave when it closes, and Java's first waits for what it has asked
    if command.phase is HoldPhase.OVER:
        pace.answered(now_ms)
        return 0
    return pace.hold_ms(min(command.hold_ms, member.session_timeout_ms // HELD_SHARE_OF_SESSION))
