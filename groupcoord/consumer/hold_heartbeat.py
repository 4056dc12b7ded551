"""ConsumerGroupHeartbeat as a long poll: its answer is held until the member has something to learn.

A member whose heartbeats may be held gets a short heartbeat interval, so that it soon has a heartbeat here
again. Clients count the interval from when they sent the last heartbeat; Java's counts it from the answer if
that changed something. No heartbeat is held for longer than the interval that its member was given:
librdkafka takes a coordinator that has not answered by then for dead, and Java's consumer, which waits on,
then loops without a pause on two cores (D14).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.groupcoord.classic.heartbeat import HOLDS_PER_SESSION
from ottla.groupcoord.classic.heartbeat_interval import HELD_SHARE
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupCurrentMemberAssignmentRecord
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.consumer.member_state import MemberState, member_state_of
from ottla.groupcoord.effects import Append, Effect, Reply
from ottla.groupcoord.heartbeat_phase import HeartbeatPhase
from ottla.groupcoord.record_codec import AppendedRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.wake_heartbeats import is_up_to_date


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldTiming:
    """The heartbeat intervals given to members, and the share of them for which a heartbeat is held."""

    interval_ms: int
    short_interval_ms: int  # while others give up partitions for the member
    held_share: float  # the rest is for the network


# For Java's consumer, which takes no harm from an answer that is a little late.
TOLERANT = HoldTiming(interval_ms=1_000, short_interval_ms=250, held_share=HELD_SHARE)
# For other clients, which may take the coordinator for dead then.
OTHERS = HoldTiming(interval_ms=2_000, short_interval_ms=1_000, held_share=0.5)


def hold_heartbeat(shard: GroupShard, command: ConsumerGroupHeartbeat, effects: list[Effect]) -> list[Effect]:
    """Hold the reply among these effects, or send it with the time until the member's next heartbeat."""
    reply = effects[-1]
    assert isinstance(reply, Reply) and isinstance(reply.result, ConsumerGroupHeartbeatResult)
    result = reply.result
    if command.phase is HeartbeatPhase.ARRIVED:
        effects = [*shard.held_heartbeats.answer(command.group_id, command.member_id), *effects]
    if command.member_epoch < 0:
        return effects  # it leaves
    group = shard.consumer_group(command.group_id)
    member = None if group is None else group.members.get(result.member_id)
    records = [record for effect in effects if isinstance(effect, Append) for record in effect.records]
    reports_change = records or result.assignment is not None or result.member_epoch != command.member_epoch
    may_wait = not reports_change and command.phase is not HeartbeatPhase.DUE
    if may_wait and group is not None and member is not None and is_up_to_date(group, member):
        wait_ms = _wait_ms(shard, group, command)
        if wait_ms:
            awaits_partitions = member.state is MemberState.UNRELEASED_PARTITIONS
            held = shard.held_heartbeats.hold(command, wait_ms, awaits_partitions=awaits_partitions)
            return [*effects[:-1], *held]
    interval_ms = min(_interval_ms(command, member, records), result.heartbeat_interval_ms)
    if group is not None:
        group.sent_heartbeat_intervals_ms[result.member_id] = interval_ms
    return [*effects[:-1], replace(reply, result=replace(result, heartbeat_interval_ms=interval_ms))]


def _wait_ms(shard: GroupShard, group: ConsumerGroup, command: ConsumerGroupHeartbeat) -> int:
    """Return for how long it may be held; 0 if its interval is not known, since another node gave it."""
    config = shard.group_config(group.group_id)
    sent_interval_ms = group.sent_heartbeat_intervals_ms.get(command.member_id, 0)
    wait_ms = int(sent_interval_ms * _timing(command).held_share)
    return min(command.hold_ms, wait_ms, config.consumer_session_timeout_ms // HOLDS_PER_SESSION)


def _interval_ms(
    command: ConsumerGroupHeartbeat, member: ConsumerMember | None, records: Sequence[AppendedRecord]
) -> int:
    timing = _timing(command)
    state = MemberState.STABLE if member is None else member.state
    for record in records:
        if isinstance(record, ConsumerGroupCurrentMemberAssignmentRecord) and record.value is not None:
            state = member_state_of(record.value.state)
    return timing.short_interval_ms if state is MemberState.UNRELEASED_PARTITIONS else timing.interval_ms


def _timing(command: ConsumerGroupHeartbeat) -> HoldTiming:
    return TOLERANT if command.tolerates_late_answers else OTHERS
