"""ConsumerGroupHeartbeat that changes nothing: the member reports nothing new, and has nothing to learn.

Most heartbeats are like this. Their answer is kept, and given again until the member or its group's settings
change.
"""

from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup, UnchangedAnswer
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_membership import start_consumer_session
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.heartbeat_phase import HeartbeatPhase
from ottla.groupcoord.shard import GroupShard


def unchanged_heartbeat(shard: GroupShard, command: ConsumerGroupHeartbeat) -> list[Effect] | None:
    """Decide a heartbeat that changes nothing; None if it may change something."""
    group = shard.consumer_group(command.group_id)
    member = None if group is None else _unchanged_member(group, command)
    if group is None or member is None:
        return None
    answer = _answer(shard, group, member)
    reply = Reply(command.token, answer.result, True)
    return [answer.session, reply] if command.phase is HeartbeatPhase.ARRIVED else [reply]


def _unchanged_member(group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> ConsumerMember | None:
    """Return the member if it has all of its target, for the newest group epoch, and reports nothing new."""
    if (
        group.is_metadata_stale
        or group.group_epoch > group.assignment_epoch
        or command.rebalance_timeout_ms != -1
        or command.subscribed_topic_names is not None
        or command.subscribed_topic_regex is not None
        or command.server_assignor is not None
        or command.rack_id is not None
        or command.instance_id is not None
    ):
        return None
    member = group.members.get(command.member_id)
    if (
        member is None
        or member.member_epoch != command.member_epoch
        or member.member_epoch != group.assignment_epoch
        or member.state is not MemberState.STABLE
        or member.topic_regex
        or member.client_id != command.client_id
        or member.client_host != command.client_host
        or member.classic is not None
    ):
        return None
    return member


def _answer(shard: GroupShard, group: ConsumerGroup, member: ConsumerMember) -> UnchangedAnswer:
    config = shard.group_config(group.group_id)
    answer = group.unchanged_answers.get(member.member_id)
    is_known = answer is not None and answer.member is member
    if answer is None or not is_known or (answer.config is not config and answer.config != config):
        result = ConsumerGroupHeartbeatResult(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
        )
        session = start_consumer_session(shard, group, member.member_id)
        answer = UnchangedAnswer(member, config, session, result)
        group.unchanged_answers[member.member_id] = answer
    return answer
