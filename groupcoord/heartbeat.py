"""Heartbeat: a member is alive, and learns whether it has to join again."""

from groupcoord.effects import Effect, Reply
from groupcoord.group_state import GroupState
from groupcoord.member_commands import Heartbeat
from groupcoord.member_results import HeartbeatResult
from groupcoord.rebalance import start_session
from groupcoord.shard import Shard, check_group_id
from logstore.errors import ErrorCode, KafkaError

_ALIVE = HeartbeatResult()
_JOIN_AGAIN = HeartbeatResult(error=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(shard: Shard, command: Heartbeat) -> list[Effect]:
    check_group_id(command.group_id)
    group = shard.classic_group(command.group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group")
    member = group.validate_member(command.member_id, command.group_instance_id)
    if command.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"the group is at generation {group.generation_id}")
    # While the group waits for the leader's assignment there is nothing to do but wait: that is no
    # REBALANCE_IN_PROGRESS.
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    result = _JOIN_AGAIN if is_rebalancing else _ALIVE
    return [start_session(group, member), Reply(command.token, result)]
