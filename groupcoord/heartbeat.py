"""Heartbeat: a member is alive, and learns whether it has to join again."""

from groupcoord.classic_group import ClassicGroup
from groupcoord.effects import Effect, Reply
from groupcoord.group_state import GroupState
from groupcoord.member_commands import Heartbeat
from groupcoord.member_results import HeartbeatResult
from groupcoord.rebalance import start_session
from logstore.errors import ErrorCode, KafkaError

_ALIVE = HeartbeatResult()
_JOIN_AGAIN = HeartbeatResult(error=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(group: ClassicGroup | None, command: Heartbeat) -> list[Effect]:
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group")
    member = group.validate_member(command.member_id, command.group_instance_id)
    group.check_generation(command.generation_id)
    # While the group waits for the leader's assignment there is nothing to do but wait: that is no
    # REBALANCE_IN_PROGRESS.
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    result = _JOIN_AGAIN if is_rebalancing else _ALIVE
    return [start_session(group, member), Reply(command.token, result)]
