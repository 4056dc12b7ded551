"""Makes the record of a classic group, and loads a group from its record."""

from collections.abc import Mapping

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_member import ClassicMember
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import Protocol
from ottla.groupcoord.group_records import GroupMetadataRecord, GroupMetadataValue, MemberMetadata


def to_record(group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataRecord:
    """Return the record of the group as it is now, with these assignments."""
    name = group.protocol_name or ""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(name),
            assignment=assignments[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=now_ms,
        members=members,
    )
    return GroupMetadataRecord(group.group_id, value)


def load_classic_group(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Load the group from a record. Members that the record was made of keep their soft state."""
    group.is_recorded = True
    group.restore(GroupState.STABLE if value.members else GroupState.EMPTY, value.current_state_timestamp)
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or ("" if value.members else None)
    group.protocol_name = value.protocol
    recorded_members = {member.member_id: member for member in value.members}
    for member in list(group.members.values()):
        recorded = recorded_members.get(member.member_id)
        if recorded is None or not _is_as_recorded(group, member, recorded):
            group.remove(member.member_id)
    for recorded in value.members:
        if recorded.member_id not in group.members:
            _add_recorded(group, recorded)
        group.assign(group.members[recorded.member_id], recorded.assignment)
    # In the record's order, so that votes and elections have the same result after a restart.
    order = dict.fromkeys(member.member_id for member in value.members)
    group.members = {member_id: group.members[member_id] for member_id in order if member_id in group.members}
    # Any program may have written the log: a leader that is no member, or an instance id with two members,
    # must not get into the state.
    group.leader_id = value.leader if value.leader in group.members else next(iter(group.members), None)
    group.read_subscriptions()


def _is_as_recorded(group: ClassicGroup, member: ClassicMember, recorded: MemberMetadata) -> bool:
    """Return True if the record was made of this very member; else it is of an older record in the log."""
    offered = Protocol(group.protocol_name or "", recorded.subscription)
    return offered in member.protocols and (
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
    ) == (
        recorded.group_instance_id,
        recorded.client_id,
        recorded.client_host,
        recorded.session_timeout,
        recorded.rebalance_timeout,
    )


def _add_recorded(group: ClassicGroup, recorded: MemberMetadata) -> None:
    rebalance_timeout_ms = recorded.rebalance_timeout
    member = ClassicMember(
        member_id=recorded.member_id,
        group_instance_id=recorded.group_instance_id,
        client_id=recorded.client_id,
        client_host=recorded.client_host,
        session_timeout_ms=recorded.session_timeout,
        rebalance_timeout_ms=recorded.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        protocols=(Protocol(group.protocol_name or "", recorded.subscription),),
        assignment=recorded.assignment,
    )
    if recorded.group_instance_id in group.static_members:
        group.remove(group.static_members[recorded.group_instance_id])
    group.add(member, group.protocol_type or "")
