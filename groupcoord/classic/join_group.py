"""JoinGroup: a member asks to be in the group's next generation (KIP-345, 389, 394, 814).

A new dynamic member first gets only a member id (MEMBER_ID_REQUIRED) and joins again with it, so that a
client that retries does not leave a trail of members behind. A static member is known by its instance id:
when it joins again without a member id, it replaces the member that had its instance id, without a rebalance
if the group is stable.
"""

from collections.abc import Sequence

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import to_record
from ottla.groupcoord.classic.classic_member import ClassicMember, offered_bytes
from ottla.groupcoord.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import JoinGroup, Protocol
from ottla.groupcoord.classic.member_results import JoinGroupResult, SyncGroupResult
from ottla.groupcoord.classic.rebalance import (
    join_result,
    maybe_complete_join,
    prepare_rebalance,
    rebalance_or_complete,
    session_key,
    start_session,
    supersede,
)
from ottla.groupcoord.coordinator_config import (
    MAX_MEMBER_NAME_CHARS,
    MAX_PENDING_MEMBERS,
    MAX_PROTOCOLS,
    CoordinatorConfig,
)
from ottla.groupcoord.effects import Append, CancelTimer, Effect, Reply
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.member_bytes import MEMBER_BYTES, check_members
from ottla.groupcoord.record_codec import record_size_bytes
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause
from ottla.logstore.words.errors import ErrorCode, KafkaError


def join_group(
    shard: GroupShard, group: ClassicGroup | None, command: JoinGroup, now_ms: int
) -> list[Effect]:
    config = shard.config
    if not is_session_timeout_allowed(command, config):
        return refuse_join(command, ErrorCode.INVALID_SESSION_TIMEOUT, command.member_id)
    protocols = checked_protocols(command, config)
    _check_offered(shard, group, command, protocols)
    if group is None:
        if command.member_id:
            return refuse_join(command, ErrorCode.UNKNOWN_MEMBER_ID, command.member_id)
        group = shard.create_group(command.group_id, now_ms)
    if not _has_room(group, command.member_id, config.group_max_size):
        return _reject_beyond_max_size(group, command, now_ms)
    if not group.supports_protocols(command.protocol_type, protocols):
        shard.drop_if_unused(group)
        return refuse_join(command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, command.member_id)
    if command.member_id:
        return _rejoin(shard, group, command, protocols, now_ms)
    if command.group_instance_id is None:
        new_member_id = _new_member_id(shard, command.client_id)
        if command.member_id_required:
            return _require_member_id(group, command, new_member_id)
        return _add_member(shard, group, command, protocols, new_member_id, now_ms)
    new_member_id = _new_member_id(shard, command.group_instance_id)
    if command.group_instance_id in group.static_members:
        return _replace_static_member(shard, group, command, protocols, new_member_id, now_ms)
    return _add_member(shard, group, command, protocols, new_member_id, now_ms)


def is_session_timeout_allowed(command: JoinGroup, config: CoordinatorConfig) -> bool:
    timeout_ms = command.session_timeout_ms
    return config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms


def checked_protocols(command: JoinGroup, config: CoordinatorConfig) -> Sequence[Protocol]:
    """Return the offered protocols, each name once.

    KafkaError(INVALID_REQUEST) for more than the group's record could ever hold.
    """
    protocols = tuple({protocol.name: protocol for protocol in reversed(command.protocols)}.values())[::-1]
    if len(protocols) > MAX_PROTOCOLS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A member offers {len(protocols)} protocols, but at most {MAX_PROTOCOLS} are allowed.",
        )
    size_bytes = sum(len(protocol.metadata) for protocol in protocols)
    if size_bytes > config.max_batch_bytes:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The protocols of a member have {size_bytes} bytes of metadata, but a "
            f"batch of {OFFSETS_TOPIC}, which stores the group, can have at most "
            f"{config.max_batch_bytes}.",
        )
    return protocols


def _check_offered(
    shard: GroupShard, group: ClassicGroup | None, command: JoinGroup, protocols: Sequence[Protocol]
) -> None:
    """Raise COORDINATOR_NOT_AVAILABLE if there is no room for the member and its metadata.

    A present member may always bring as much as it has now.
    """
    more_bytes = offered_bytes(protocols)
    if group is not None and command.member_id in group.members:
        more_bytes -= offered_bytes(group.members[command.member_id].protocols)
    elif group is not None and command.member_id in group.pending_join_members:
        more_bytes -= MEMBER_BYTES
    check_members(shard.member_bytes, more_bytes)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    if not member_id and len(group.pending_join_members) >= MAX_PENDING_MEMBERS:
        return False
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Count the members that wait, not all that are known: if the limit was lowered, the last to rejoin
        # are turned away.
        return (member is not None and member.join_token is not None) or group.awaiting_join_count < max_size
    return member is not None or len(group.members) < max_size


def _reject_beyond_max_size(group: ClassicGroup, command: JoinGroup, now_ms: int) -> list[Effect]:
    effects = refuse_join(command, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    member = group.members.get(command.member_id)
    if member is not None or command.member_id in group.pending_join_members:
        if member is not None:
            group.note(Cause.GROUP_TOO_LARGE, now_ms, member)
        group.remove(command.member_id)
        effects.append(CancelTimer(session_key(group, command.member_id)))
        effects += maybe_complete_join(group, now_ms)
    return effects


def _new_member_id(shard: GroupShard, name: str) -> str:
    """Return a new member id, which begins with this name: a client id or an instance id.

    It must fit into the group's record, while a name may be as long as a string of the protocol can be.
    """
    return f"{name[:MAX_MEMBER_NAME_CHARS]}-{shard.new_uuid()}"


def _require_member_id(group: ClassicGroup, command: JoinGroup, new_member_id: str) -> list[Effect]:
    group.add_pending_member(new_member_id)
    session = start_session(group, _new_member(command, (), new_member_id))
    return [session, *refuse_join(command, ErrorCode.MEMBER_ID_REQUIRED, new_member_id)]


def _add_member(
    shard: GroupShard,
    group: ClassicGroup,
    command: JoinGroup,
    protocols: Sequence[Protocol],
    member_id: str,
    now_ms: int,
) -> list[Effect]:
    member = _new_member(command, protocols, member_id)
    member.join_token, member.is_new = command.token, True
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.note(Cause.MEMBER_JOINED, now_ms, member, reason=command.reason or "")
    group.add(member, command.protocol_type)
    # It cannot heartbeat before it is answered, nor is its disconnection seen. A client that gives up and
    # tries again would leave a dead member each time, so a first join has a timeout of its own.
    session = start_session(group, member, shard.config.new_member_join_timeout_ms)
    return [session, *rebalance_or_complete(shard, group, now_ms)]


def _rejoin(
    shard: GroupShard, group: ClassicGroup, command: JoinGroup, protocols: Sequence[Protocol], now_ms: int
) -> list[Effect]:
    if command.member_id in group.pending_join_members:
        if command.group_instance_id is not None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "this member id was given to a dynamic member, so it cannot be used with a group.instance.id",
            )
        return _add_member(shard, group, command, protocols, command.member_id, now_ms)
    try:
        member = group.validate_member(command.member_id, command.group_instance_id)
    except KafkaError as error:
        return refuse_join(command, error.code, command.member_id)
    is_same = member.offers(protocols)
    if group.state is GroupState.COMPLETING_REBALANCE and is_same:
        # It may have missed the answer to its join, so it gets the answer again.
        return [Reply(command.token, join_result(group, member))]
    if group.state is GroupState.STABLE and is_same and not group.is_leader(member.member_id):
        return [Reply(command.token, join_result(group, member), shows_state=True)]
    # A leader that joins a stable group has a reason that its metadata need not show: its topics have other
    # partitions.
    effects = supersede(member.join_token, JoinGroupResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
    if group.state is not GroupState.PREPARING_REBALANCE:
        group.note(_rebalance_cause(group, member, protocols), now_ms, member, reason=command.reason or "")
    _take_over(group, member, command, protocols)
    return effects + rebalance_or_complete(shard, group, now_ms)


def _rebalance_cause(group: ClassicGroup, member: ClassicMember, protocols: Sequence[Protocol]) -> Cause:
    """Return the cause for which a member of a group past its join phase makes it rebalance again."""
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        name = group.protocol_name or ""
        before = subscribed_topics(member.metadata(name))
        now = subscribed_topics(dict(protocols).get(name, b""))
        if before is not None and now is not None and set(before) != set(now):
            return Cause.SUBSCRIPTION_CHANGED
    return Cause.LEADER_REJOINED if group.is_leader(member.member_id) else Cause.METADATA_CHANGED


def _replace_static_member(
    shard: GroupShard,
    group: ClassicGroup,
    command: JoinGroup,
    protocols: Sequence[Protocol],
    new_member_id: str,
    now_ms: int,
) -> list[Effect]:
    assert command.group_instance_id is not None
    old_member_id = group.static_members[command.group_instance_id]
    leader_before = group.leader_id or ""
    member = group.members[old_member_id]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    effects = supersede(
        group.take_join_token(member), JoinGroupResult(error=fenced, member_id=old_member_id)
    ) + supersede(member.sync_token, SyncGroupResult(error=fenced))
    member.sync_token = None
    effects.append(CancelTimer(session_key(group, old_member_id)))
    group.rename_static_member(command.group_instance_id, new_member_id)
    member.client_id, member.client_host = command.client_id, command.client_host
    # The timeout of a first join ran for the member that it replaces; this one is not timed out while it
    # waits.
    member.is_new = False
    if group.state is GroupState.STABLE:
        return effects + _replace_in_stable_group(
            shard, group, member, command, protocols, leader_before, now_ms
        )
    group.note(Cause.STATIC_REPLACED, now_ms, member, reason=command.reason or "")
    _take_over(group, member, command, protocols)
    effects.append(start_session(group, member))
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be at work on an assignment for the old member id.
        return effects + prepare_rebalance(shard, group, now_ms)
    return effects + maybe_complete_join(group, now_ms)


def _replace_in_stable_group(
    shard: GroupShard,
    group: ClassicGroup,
    member: ClassicMember,
    command: JoinGroup,
    protocols: Sequence[Protocol],
    leader_before: str,
    now_ms: int,
) -> list[Effect]:
    """Replace the member id without a rebalance, unless the group would now choose another protocol."""
    group.update(member, protocols, command.session_timeout_ms, command.rebalance_timeout_ms)
    session = start_session(group, member)
    record = to_record(group, {each.member_id: each.assignment for each in group.members.values()}, now_ms)
    fits = record_size_bytes(record) <= shard.config.max_batch_bytes
    if group.select_protocol() != group.protocol_name or not fits:
        group.note(Cause.STATIC_REPLACED, now_ms, member, reason=command.reason or "")
        group.wait_for_join(member, command.token)
        return [session, *prepare_rebalance(shard, group, now_ms)]
    is_leader = group.is_leader(member.member_id)
    result = join_result(group, member)
    if is_leader:
        # KIP-814: the leader is not to assign again, since no other member would ask for the result. Old
        # clients have no field for that: they get the leader's former id, and so take themselves for
        # followers.
        result = JoinGroupResult(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=member.member_id if command.can_skip_assignment else leader_before,
            skip_assignment=command.can_skip_assignment,
            member_id=member.member_id,
            members=result.members if command.can_skip_assignment else (),
        )
    return [Append([record]), session, Reply(command.token, result)]


def _take_over(
    group: ClassicGroup, member: ClassicMember, command: JoinGroup, protocols: Sequence[Protocol]
) -> None:
    """Update the member from its newest JoinGroup, which now waits."""
    group.update(member, protocols, command.session_timeout_ms, command.rebalance_timeout_ms)
    group.wait_for_join(member, command.token)


def _new_member(command: JoinGroup, protocols: Sequence[Protocol], member_id: str) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        group_instance_id=command.group_instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=protocols,
    )


def refuse_join(command: JoinGroup, error: ErrorCode, member_id: str) -> list[Effect]:
    return [Reply(command.token, JoinGroupResult(error=error, member_id=member_id))]
