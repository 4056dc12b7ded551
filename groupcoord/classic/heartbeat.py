"""Heartbeat: renews a member's session. It may be held until the member has to join again."""

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_member import ClassicMember
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.heartbeat_interval import HeartbeatInterval
from ottla.groupcoord.classic.member_commands import Heartbeat
from ottla.groupcoord.classic.member_results import HeartbeatResult
from ottla.groupcoord.classic.rebalance import start_session
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.heartbeat_phase import HeartbeatPhase
from ottla.groupcoord.shard import GroupShard
from ottla.logstore.words.errors import ErrorCode, KafkaError

_ALIVE = HeartbeatResult()
_JOIN_AGAIN = HeartbeatResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
# A heartbeat is held for at most the session timeout divided by this, so that there is time for several more.
HOLDS_PER_SESSION = 4


def heartbeat(shard: GroupShard, group: ClassicGroup | None, command: Heartbeat, now_ms: int) -> list[Effect]:
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group does not exist")
    member = group.validate_member(command.member_id, command.group_instance_id)
    group.check_generation(command.generation_id)
    # While the group waits for the leader's assignment, the member has nothing to do but wait, so the answer
    # is not REBALANCE_IN_PROGRESS.
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    result = _JOIN_AGAIN if is_rebalancing else _ALIVE
    if not command.hold_ms:
        return [start_session(group, member), Reply(command.token, result)]
    effects: list[Effect] = []
    if command.phase is HeartbeatPhase.ARRIVED:
        effects = [
            start_session(group, member),
            *shard.held_heartbeats.answer(group.group_id, member.member_id),
        ]
    wait_ms = _wait_ms(group, member, command, now_ms)
    if wait_ms:
        return effects + shard.held_heartbeats.hold(command, wait_ms)
    return [*effects, Reply(command.token, result)]


def _wait_ms(group: ClassicGroup, member: ClassicMember, command: Heartbeat, now_ms: int) -> int:
    """Return for how long the heartbeat may be held; 0 if it is to be answered now."""
    interval = member.heartbeat_interval = member.heartbeat_interval or HeartbeatInterval()
    if command.phase is HeartbeatPhase.ARRIVED:
        interval.note_arrival(now_ms)
    if group.state is not GroupState.STABLE:
        interval.skip_next()
        return 0
    if member.is_static:
        return 0  # it does not leave on close, and Java's `close` waits for open requests
    if command.phase is HeartbeatPhase.DUE:
        interval.note_answer(now_ms)
        return 0
    return interval.hold_ms(min(command.hold_ms, member.session_timeout_ms // HOLDS_PER_SESSION))
