"""The rebalance of a classic group: from the first join of a generation to the last sync.

    join, leave, time-out          all joined, or time is over         the leader's assignment
    Empty, Stable, Completing ---> PreparingRebalance ---> CompletingRebalance ---> Stable
                                          | no member left
                                          +-------------> Empty

Functions here return effects and change soft state; durable results go into a record.
"""

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import to_record
from ottla.groupcoord.classic.classic_member import ClassicMember
from ottla.groupcoord.classic.group_state import MOVES, GroupState
from ottla.groupcoord.classic.member_results import JoinGroupResult, SyncGroupResult
from ottla.groupcoord.effects import Append, CancelTimer, Effect, Refuse, Reply, StartTimer, TimerKey
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause
from ottla.groupcoord.timer_commands import ExpireJoin, ExpireSession, ExpireSync, ExtendInitialRebalance
from ottla.groupcoord.wake_heartbeats import wake_group
from ottla.logstore.words.errors import ErrorCode


def session_key(group: ClassicGroup, member_id: str) -> TimerKey:
    return TimerKey("session", group.group_id, member_id)


def join_key(group: ClassicGroup) -> TimerKey:
    return TimerKey("join", group.group_id)


def sync_key(group: ClassicGroup) -> TimerKey:
    return TimerKey("sync", group.group_id)


def start_session(
    group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
) -> StartTimer[ExpireSession]:
    """Renew the member's session, for its session timeout or the given time."""
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    timer = member.session_timer
    if timer is None or timer.delay_ms != delay_ms or timer.key.member_id != member.member_id:
        command = ExpireSession(group_id=group.group_id, member_id=member.member_id)
        timer = StartTimer(session_key(group, member.member_id), delay_ms, command)
        member.session_timer = timer
    return timer


def start_classic_group(shard: GroupShard, group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Start the sessions of a loaded group: each member has its session timeout to send a heartbeat."""
    effects: list[Effect] = [start_session(group, member) for member in group.members.values()]
    if len(group.members) > shard.config.group_max_size:
        group.note(Cause.GROUP_TOO_LARGE, now_ms)
        effects += prepare_rebalance(shard, group, now_ms)
    return effects


def stop_classic_group(group: ClassicGroup, error: ErrorCode) -> list[Effect]:
    """Refuse every join and sync that waits."""
    effects: list[Effect] = []
    for member in group.members.values():
        tokens = (group.take_join_token(member), member.sync_token)
        member.sync_token = None
        effects += [Refuse(token, error) for token in tokens if token is not None]
    return effects


def rebalance_or_complete(shard: GroupShard, group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Start a rebalance after the members changed, or go on with the one that is under way."""
    if GroupState.PREPARING_REBALANCE in MOVES[group.state]:
        return prepare_rebalance(shard, group, now_ms)
    return maybe_complete_join(group, now_ms)


def prepare_rebalance(shard: GroupShard, group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Start a rebalance: all members have to join again within the rebalance timeout.

    The caller has added the cause to the timeline.
    """
    effects: list[Effect] = []
    if group.state is GroupState.STABLE:
        effects += wake_group(shard, group.group_id)  # decided when the rebalance has begun
    if group.state is GroupState.COMPLETING_REBALANCE:
        effects += fail_waiting_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync_members.clear()
    effects.append(CancelTimer(sync_key(group)))
    is_initial = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, now_ms)
    if is_initial:
        # KIP-134: members that start together should get into one generation, not into many.
        delay_ms = shard.config.group_initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        effects.append(_initial_delay(group, delay_ms, remaining_ms))
    elif group.has_all_members_joined():
        effects += complete_join(group, now_ms)
    else:
        effects.append(_join_timeout(group))
    return effects


def extend_initial_rebalance(shard: GroupShard, command: ExtendInitialRebalance, now_ms: int) -> list[Effect]:
    group = shard.classic_group(command.group_id)
    if group is None or group.state is not GroupState.PREPARING_REBALANCE:
        return []  # the timer was in flight when the group went on
    if not group.new_member_added or command.remaining_ms == 0:
        return complete_join(group, now_ms)
    group.new_member_added = False
    delay_ms = min(shard.config.group_initial_rebalance_delay_ms, command.remaining_ms)
    return [_initial_delay(group, delay_ms, max(command.remaining_ms - command.delay_ms, 0))]


def expire_join(shard: GroupShard, command: ExpireJoin, now_ms: int) -> list[Effect]:
    group = shard.classic_group(command.group_id)
    if group is None or group.state is not GroupState.PREPARING_REBALANCE:
        return []
    return complete_join(group, now_ms)


def maybe_complete_join(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Complete the join phase if all members have joined; an initial rebalance waits for its delay."""
    if (
        group.state is not GroupState.PREPARING_REBALANCE
        or group.previous_state is GroupState.EMPTY
        or not group.has_all_members_joined()
    ):
        return []
    return complete_join(group, now_ms)


def complete_join(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """End the join phase and start a generation, without dynamic members that have not joined."""
    assert group.state is GroupState.PREPARING_REBALANCE
    effects: list[Effect] = [CancelTimer(join_key(group))]
    group.new_member_added = False
    for member in list(group.members.values()):
        if member.join_token is None and not member.is_static:
            group.note(Cause.REBALANCE_TIMED_OUT, now_ms, member)
            group.remove(member.member_id)
            effects.append(CancelTimer(session_key(group, member.member_id)))
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none came back yet: wait until their sessions end, or they join.
        effects.append(_join_timeout(group))
        return effects
    group.start_generation(now_ms)
    if not group.members:
        group.timeline.end(now_ms, group.generation_id, 0)
        effects.append(Append([to_record(group, {}, now_ms)]))
        return effects
    for member in group.members.values():
        token = group.take_join_token(member)
        if token is not None:
            effects.append(Reply(token, join_result(group, member)))
        effects.append(start_session(group, member))
        member.is_new = False
        group.pending_sync_members.add(member.member_id)
    command = ExpireSync(group_id=group.group_id, generation_id=group.generation_id)
    effects.append(StartTimer(sync_key(group), group.rebalance_timeout_ms(), command))
    return effects


def join_result(group: ClassicGroup, member: ClassicMember) -> JoinGroupResult:
    """Return the answer to a member's join: the generation that it is in."""
    return JoinGroupResult(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.members_for_leader() if group.is_leader(member.member_id) else (),
    )


def note_sync_request(group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    """Note that a member asked for its assignment; the last one of a generation ends the sync timeout."""
    group.pending_sync_members.discard(member.member_id)
    return [] if group.pending_sync_members else [CancelTimer(sync_key(group))]


def expire_sync(shard: GroupShard, command: ExpireSync, now_ms: int) -> list[Effect]:
    """Remove the members that joined but never asked for their assignment; the others join again."""
    group = shard.classic_group(command.group_id)
    if (
        group is None
        or group.generation_id != command.generation_id
        or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        or not group.pending_sync_members
    ):
        return []
    effects: list[Effect] = []
    for member_id in sorted(group.pending_sync_members):
        group.note(Cause.SYNC_TIMED_OUT, now_ms, group.members[member_id])
        group.remove(member_id)
        effects.append(CancelTimer(session_key(group, member_id)))
    return effects + prepare_rebalance(shard, group, now_ms)


def fail_waiting_syncs(group: ClassicGroup, error: ErrorCode) -> list[Effect]:
    """Answer the waiting syncs with an error: no member gets an assignment in this generation."""
    assert group.state is GroupState.COMPLETING_REBALANCE
    effects: list[Effect] = []
    for member in group.members.values():
        group.assign(member, b"")
        token, member.sync_token = member.sync_token, None
        if token is not None:
            # While it waited for the leader, the end of its session was ignored.
            effects += [Reply(token, SyncGroupResult(error=error)), start_session(group, member)]
    return effects


def expire_session(shard: GroupShard, command: ExpireSession, now_ms: int) -> list[Effect]:
    """Remove a member that was silent for too long, unless it waits for others: then they are to blame."""
    group = shard.classic_group(command.group_id)
    if group is None:
        return []
    if command.member_id in group.pending_join_members:
        group.remove(command.member_id)
        effects = _complete_if_all_joined(group, now_ms)
        shard.drop_if_unused(group)
        return effects
    member = group.members.get(command.member_id)
    if member is None:
        return []  # left while the timer was in flight
    is_waiting = member.join_token is not None or member.sync_token is not None
    if is_waiting and not member.is_new:
        return []
    effects = answer_removed(group, member)
    group.note(Cause.SESSION_EXPIRED, now_ms, member)
    group.remove(member.member_id)
    return effects + after_removal(shard, group, now_ms)


def answer_removed(group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    """Answer the waiting requests of a member that is about to be removed, so that it can join again."""
    effects: list[Effect] = []
    join_token = group.take_join_token(member)
    if join_token is not None:
        effects.append(Reply(join_token, JoinGroupResult(error=ErrorCode.UNKNOWN_MEMBER_ID)))
    sync_token, member.sync_token = member.sync_token, None
    if sync_token is not None:
        effects.append(Reply(sync_token, SyncGroupResult(error=ErrorCode.UNKNOWN_MEMBER_ID)))
    return effects


def after_removal(shard: GroupShard, group: ClassicGroup, now_ms: int) -> list[Effect]:
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        return prepare_rebalance(shard, group, now_ms)
    return _complete_if_all_joined(group, now_ms)


def supersede(token: Token | None, result: JoinGroupResult | SyncGroupResult) -> list[Effect]:
    """Answer a waiting request that its member sent a second time: only the newer one goes on waiting."""
    return [] if token is None else [Reply(token, result)]


def _complete_if_all_joined(group: ClassicGroup, now_ms: int) -> list[Effect]:
    if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined():
        return complete_join(group, now_ms)
    return []


def _initial_delay(
    group: ClassicGroup, delay_ms: int, remaining_ms: int
) -> StartTimer[ExtendInitialRebalance]:
    command = ExtendInitialRebalance(group_id=group.group_id, delay_ms=delay_ms, remaining_ms=remaining_ms)
    return StartTimer(join_key(group), delay_ms, command)


def _join_timeout(group: ClassicGroup) -> StartTimer[ExpireJoin]:
    return StartTimer(join_key(group), group.rebalance_timeout_ms(), ExpireJoin(group_id=group.group_id))
