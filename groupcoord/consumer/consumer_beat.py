"""ConsumerGroupHeartbeat: most change nothing and are decided here; and how a member waits for news.

A member whose heartbeats may wait is told an interval that brings it back soon, to wait again. Clients count
it from when they sent the last heartbeat, Java's from the answer if it changed. Nobody waits for longer than
it was told: librdkafka takes a coordinator for dead that has not answered by then, and Java's consumer, which
goes on to wait, turns in a loop without a rest on two cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.groupcoord.classic.heartbeat import HELD_SHARE_OF_SESSION
from ottla.groupcoord.classic.heartbeat_pace import HELD_SHARE
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup, SteadyBeat
from ottla.groupcoord.consumer.consumer_heartbeat import consumer_heartbeat
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_membership import start_consumer_session
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupCurrentMemberAssignmentRecord
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.consumer.member_state import MemberState, member_state_of
from ottla.groupcoord.effects import Append, Effect, Reply
from ottla.groupcoord.heartbeat_news import waits_for_news
from ottla.groupcoord.hold_phase import HoldPhase
from ottla.groupcoord.record_codec import AppendedRecord
from ottla.groupcoord.shard import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Of a member that may wait."""

    interval_ms: int  # what it is told
    short_interval_ms: int  # while partitions are being given up for it
    held_share: float  # of that, how long it may wait; the rest is for the way there and back


# Java's consumer takes no harm from an answer that is a little late,
PATIENT = Pace(interval_ms=1_000, short_interval_ms=250, held_share=HELD_SHARE)
# others may take the coordinator for dead.
OTHERS = Pace(interval_ms=2_000, short_interval_ms=1_000, held_share=0.5)


def consumer_beat(shard: Shard, command: ConsumerGroupHeartbeat, now_ms: int) -> list[Effect]:
    group = shard.consumer_group(command.group_id)
    member = None if group is None else _steady_member(group, command)
    if group is not None and member is not None:
        beat = _steady_beat(shard, group, member)
        reply = Reply(command.token, beat.result, True)
        effects: list[Effect] = [beat.session, reply] if command.phase is HoldPhase.ARRIVED else [reply]
    else:
        effects = consumer_heartbeat(shard, command, now_ms)
    return _held(shard, command, effects) if command.hold_ms else effects


def _steady_beat(shard: Shard, group: ConsumerGroup, member: ConsumerMember) -> SteadyBeat:
    """The same effects again, thousands of times, until the member or its group's settings change."""
    config = shard.group_config(group.group_id)
    beat = group.steady_beats.get(member.member_id)
    is_known = beat is not None and beat.member is member
    if beat is None or not is_known or (beat.config is not config and beat.config != config):
        result = ConsumerGroupHeartbeatResult(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
        )
        session = start_consumer_session(shard, group, member.member_id)
        beat = group.steady_beats[member.member_id] = SteadyBeat(member, config, session, result)
    return beat


def _steady_member(group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> ConsumerMember | None:
    """The member, if it says nothing new and has nothing to learn."""
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


def _held(shard: Shard, command: ConsumerGroupHeartbeat, effects: list[Effect]) -> list[Effect]:
    """The same for a member that may wait: it waits, or is told when to come again."""
    reply = effects[-1]
    assert isinstance(reply, Reply) and isinstance(reply.result, ConsumerGroupHeartbeatResult)
    result = reply.result
    if command.phase is HoldPhase.ARRIVED:
        effects = [*shard.held.end(command.group_id, command.member_id), *effects]
    if command.member_epoch < 0:
        return effects  # it leaves
    group = shard.consumer_group(command.group_id)
    member = None if group is None else group.members.get(result.member_id)
    records = [record for effect in effects if isinstance(effect, Append) for record in effect.records]
    is_told = records or result.assignment is not None or result.member_epoch != command.member_epoch
    may_wait = not is_told and command.phase is not HoldPhase.OVER
    if may_wait and group is not None and member is not None and waits_for_news(group, member):
        wait_ms = _wait_ms(shard, group, command)
        if wait_ms:
            is_short = member.state is MemberState.UNRELEASED_PARTITIONS
            return [*effects[:-1], *shard.held.hold(command, wait_ms, is_short=is_short)]
    interval_ms = min(_interval_ms(command, member, records), result.heartbeat_interval_ms)
    if group is not None:
        group.told_intervals_ms[result.member_id] = interval_ms
    return [*effects[:-1], replace(reply, result=replace(result, heartbeat_interval_ms=interval_ms))]


def _wait_ms(shard: Shard, group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> int:
    """For how long it may wait; 0 if nobody knows what the member was told, since another node told it."""
    config = shard.group_config(group.group_id)
    told_ms = group.told_intervals_ms.get(command.member_id, 0)
    wait_ms = int(told_ms * _pace(command).held_share)
    return min(command.hold_ms, wait_ms, config.consumer_session_timeout_ms // HELD_SHARE_OF_SESSION)


def _interval_ms(
    command: ConsumerGroupHeartbeat, member: ConsumerMember | None, records: Sequence[AppendedRecord]
) -> int:
    pace = _pace(command)
    state = MemberState.STABLE if member is None else member.state
    for record in records:
        if isinstance(record, ConsumerGroupCurrentMemberAssignmentRecord) and record.value is not None:
            state = member_state_of(record.value.state)
    return pace.short_interval_ms if state is MemberState.UNRELEASED_PARTITIONS else pace.interval_ms


def _pace(command: ConsumerGroupHeartbeat) -> Pace:
    return PATIENT if command.is_patient else OTHERS
