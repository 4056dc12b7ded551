"""Makes a consumer group a classic one, when the last member of the consumer protocol leaves (KIP-848).

Members of the classic protocol keep their ids. The classic group begins with the partitions that they hold as
its assignment and with the group epoch as its generation, and rebalances at once: the leaving member had
partitions that no other has. Only a static member that comes back under the other protocol just takes its
place.
"""

from collections.abc import Collection, Sequence

from ottla.groupcoord.assignment import Assignment, listed
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import to_record
from ottla.groupcoord.classic.classic_member import ClassicMember
from ottla.groupcoord.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE, encode_assignment, version_of
from ottla.groupcoord.classic.rebalance import prepare_rebalance, start_session
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.migration_commands import FinishDowngrade
from ottla.groupcoord.effects import Append, CancelTimer, ContinueWith, Effect, TimerKey
from ottla.groupcoord.group_records import OFFSETS_TOPIC, GroupMetadataRecord
from ottla.groupcoord.record_codec import GroupRecord, record_size_bytes
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause, Event
from ottla.groupcoord.topics_view import TopicsView
from ottla.logstore.words.errors import ErrorCode, KafkaError

# The timers that members of a consumer group may have, without sessions, which go on.
_TIMERS_OF_MEMBERS = ("rebalance", "member-join", "member-sync")


def downgrade(
    shard: GroupShard, group: ConsumerGroup, leaving: Sequence[Event], now_ms: int
) -> list[Effect] | None:
    """Make the group without these members a classic group; None if it is to stay a consumer group."""
    gone = {event.member_id for event in leaving}
    if not _may_downgrade(shard, group, gone, len(group.members) - len(gone)):
        return None
    members = [member for member in group.members.values() if member.member_id not in gone]
    if not _share_a_protocol(members):
        return None
    classic = _to_classic(group, members, shard.topics, now_ms)
    records: list[GroupRecord] = [*group.tombstones(), _record_of(classic, now_ms)]
    if not _fits(shard, records):
        return None
    sessions = [CancelTimer(TimerKey("session", group.group_id, one)) for one in sorted(gone)]
    last = leaving[-1]
    events = [*leaving, Event(Cause.DOWNGRADED, now_ms, last.member_id, last.client_id)]
    return [*_convert(group, classic, records, events, must_rebalance=True), *sessions]


def may_downgrade_for(shard: GroupShard, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Return True if a classic member that replaces this static one makes the group a classic group."""
    size = len(group.members)
    return replaced.classic is None and _may_downgrade(shard, group, {replaced.member_id}, size)


def downgrade_for(
    shard: GroupShard,
    group: ConsumerGroup,
    replaced: ConsumerMember,
    joining: ConsumerMember,
    records: list[GroupRecord],
    now_ms: int,
    epoch: int,
) -> list[Effect]:
    """Make the group a classic one after `records`: a classic member replaces the last one that is not.

    GROUP_MAX_SIZE_REACHED if all of it does not fit into one batch. The group rebalances if its target is not
    that of the epoch, or if a member is still on the way to it.
    """
    members = [one for one in group.members.values() if one.member_id != replaced.member_id]
    members.append(joining)
    classic = _to_classic(group, members, shard.topics, now_ms)
    names = {replaced.member_id: joining.member_id}
    records = [*records, *group.tombstones(names), _record_of(classic, now_ms)]
    if not _fits(shard, records):
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group cannot become a classic group: its record would not "
            f"fit into a batch of {OFFSETS_TOPIC}, which can have at most "
            f"{shard.config.max_batch_bytes} bytes.",
        )
    member_fields = (joining.member_id, joining.client_id)
    events = [Event(cause, now_ms, *member_fields) for cause in (Cause.STATIC_REPLACED, Cause.DOWNGRADED)]
    is_settled = epoch == group.assignment_epoch and all(one.is_reconciled_to(epoch) for one in members)
    return _convert(group, classic, records, events, must_rebalance=not is_settled)


def finish_downgrade(shard: GroupShard, command: FinishDowngrade, now_ms: int) -> list[Effect]:
    """Finish a downgrade after its records: members offer all their protocols, and rebalance if they must."""
    group = shard.classic_group(command.group_id)
    assert group is not None, command
    for member_id, protocols in command.protocols.items():
        member = group.members[member_id]
        group.update(member, protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
    group.timeline = command.timeline
    for event in command.events:
        group.timeline.note(event, group.generation_id)
    if command.must_rebalance:
        return prepare_rebalance(shard, group, now_ms)
    group.timeline.end(now_ms, group.generation_id, len(group.members))
    return []


def _may_downgrade(shard: GroupShard, group: ConsumerGroup, except_: Collection[str], size: int) -> bool:
    return (
        group.has_classic_members_only(except_)
        and 0 < size <= shard.config.group_max_size
        and shard.config.group_consumer_migration_policy.allows_downgrade
    )


def _share_a_protocol(members: Sequence[ConsumerMember]) -> bool:
    """Return True if there is a protocol that all members offer.

    The coordinator lets no others join, but any program may have written the log.
    """
    offered = [{one.name for one in member.classic.protocols} for member in members if member.classic]
    return bool(set.intersection(*offered))


def _fits(shard: GroupShard, records: Sequence[GroupRecord]) -> bool:
    """Return True if one batch can hold the records: half a downgrade would be two groups of one name."""
    return sum(map(record_size_bytes, records)) <= shard.config.max_batch_bytes


def _to_classic(
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    topics: TopicsView,
    now_ms: int,
) -> ClassicGroup:
    """Return the classic group as it will be loaded from its record."""
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation_id = group.group_epoch
    for member in members:
        assert member.classic is not None
        joined = ClassicMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.classic.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=member.classic.protocols,
        )
        classic.add(joined, CONSUMER_PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    for member in members:
        joined = classic.members[member.member_id]
        version = version_of(joined.metadata(classic.protocol_name))
        joined.assignment = encode_assignment(version, named(member.held, topics))
    return classic


def named(assignment: Assignment, topics: TopicsView) -> list[tuple[str, Sequence[int]]]:
    """Return the partitions with topic names for ids, without topics that are gone."""
    found = [(topics.by_id(topic_id), partitions) for topic_id, partitions in listed(assignment)]
    return [(topic.name, partitions) for topic, partitions in found if topic is not None]


def _record_of(classic: ClassicGroup, now_ms: int) -> GroupMetadataRecord:
    return to_record(classic, {one.member_id: one.assignment for one in classic.members.values()}, now_ms)


def _convert(
    group: ConsumerGroup,
    classic: ClassicGroup,
    records: Sequence[GroupRecord],
    events: Sequence[Event],
    *,
    must_rebalance: bool,
) -> list[Effect]:
    group_id = group.group_id
    finish = FinishDowngrade(
        group_id=group_id,
        events=events,
        timeline=group.timeline,
        protocols={one.member_id: one.protocols for one in classic.members.values()},
        must_rebalance=must_rebalance,
    )
    timers = [
        CancelTimer(TimerKey(purpose, group_id, member_id))
        for member_id in sorted(group.members)
        for purpose in _TIMERS_OF_MEMBERS
    ]
    sessions = [start_session(classic, member) for member in classic.members.values()]
    return [
        Append(records),
        *timers,
        CancelTimer(TimerKey("assign", group_id)),
        *sessions,
        ContinueWith(finish),
    ]
