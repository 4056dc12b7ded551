"""Makes a classic group a consumer group, when a member of the consumer protocol joins it (KIP-848).

Its members stay. Their generation becomes their epoch, and the partitions that they may be working on become
their partitions and their target. Waiting members have to join again: the new member has changed the group.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.groupcoord.assignment import Assignment, with_epoch
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_member import ClassicMember
from ottla.groupcoord.classic.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    OwnedTopic,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_results import JoinGroupResult, SyncGroupResult
from ottla.groupcoord.classic.rebalance import join_key, session_key, sync_key
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ClassicPart, ConsumerMember
from ottla.groupcoord.consumer.consumer_membership import epoch_record, start_consumer_session
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupRecord,
    ConsumerGroupTargetAssignmentMetadataRecord,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.groupcoord.consumer.migration_commands import FinishUpgrade
from ottla.groupcoord.consumer.target_assignment import target_record
from ottla.groupcoord.effects import CancelTimer, Effect, Reply
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.group_records import GroupMetadataRecord
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.topics_view import TopicsView
from ottla.logstore.words.errors import ErrorCode, KafkaError

_REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS


class GroupForHeartbeat(NamedTuple):
    """The consumer group of a heartbeat as it is after these records; a classic group is unchanged."""

    group: ConsumerGroup
    records: list[GroupRecord]
    effects: list[Effect]  # to follow the records
    must_rebalance: bool  # whatever the new member changes


def upgrade(shard: GroupShard, classic: ClassicGroup) -> GroupForHeartbeat:
    """Return the consumer group that a classic one becomes.

    GROUP_ID_NOT_FOUND, with Kafka's words, if it cannot become one.
    """
    group_id = classic.group_id
    pending = sorted(classic.pending_join_members)
    effects: list[Effect] = [CancelTimer(session_key(classic, member_id)) for member_id in pending]
    records: list[GroupRecord] = [GroupMetadataRecord(group_id, None)]
    group = ConsumerGroup(group_id, {})
    if classic.state is GroupState.EMPTY:
        return GroupForHeartbeat(group, records, effects, must_rebalance=False)
    _check(shard, classic)
    members = _to_members(classic, shard.topics)
    made = _records_of(shard, classic, members)
    for record in made:
        group.replay(record)
    effects += [CancelTimer(join_key(classic)), CancelTimer(sync_key(classic))]
    for member in classic.members.values():
        if member.join_token is not None:
            answer = JoinGroupResult(error=_REBALANCING, member_id=member.member_id)
            effects.append(Reply(member.join_token, answer))
        if member.sync_token is not None:
            effects.append(Reply(member.sync_token, SyncGroupResult(error=_REBALANCING)))
        part = group.members[member.member_id].classic
        effects.append(start_consumer_session(shard, group, member.member_id, part))
    is_settled = classic.state is GroupState.STABLE and _gives_all(group, shard.topics)
    return GroupForHeartbeat(group, [*records, *made], effects, must_rebalance=not is_settled)


def finish_upgrade(shard: GroupShard, command: FinishUpgrade) -> list[Effect]:
    """Finish an upgrade after its records: the timeline goes on."""
    group = shard.consumer_group(command.group_id)
    assert group is not None, command
    group.timeline = command.timeline
    return []


def _check(shard: GroupShard, classic: ClassicGroup) -> None:
    if not shard.config.group_consumer_migration_policy.allows_upgrade:
        raise _refusal(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refusal(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > shard.config.group_consumer_max_size:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size")


def _refusal(classic: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _to_members(classic: ClassicGroup, topics: TopicsView) -> list[tuple[ConsumerMember, Assignment]]:
    """Return the members with their partitions."""
    epoch = classic.generation_id
    subscriptions = {
        member_id: _subscription_of(classic, member) for member_id, member in classic.members.items()
    }
    owned = _owned(classic, subscriptions, topics)
    members: list[tuple[ConsumerMember, Assignment]] = []
    for member_id, member in classic.members.items():
        subscription = subscriptions[member_id]
        joined = ConsumerMember(
            member_id=member_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            classic=ClassicPart(
                session_timeout_ms=member.session_timeout_ms, protocols=tuple(member.protocols)
            ),
            member_epoch=epoch,
            previous_member_epoch=epoch,
            assigned=with_epoch(owned[member_id], epoch),
        )
        members.append((joined, owned[member_id]))
    return members


def _owned(
    classic: ClassicGroup, subscriptions: Mapping[str, Subscription], topics: TopicsView
) -> dict[str, Assignment]:
    """Return the partitions that each member may work on; no partition has two members.

    These are its last assignment and the partitions that it reported when it joined, for a cooperative member
    gives these up only when it gets its assignment.
    """
    owned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in classic.members}
    taken: set[tuple[bytes, int]] = set()
    claims = [
        *((one, _assigned_to(classic, member)) for one, member in classic.members.items()),
        *((one, subscription.owned_partitions) for one, subscription in subscriptions.items()),
    ]
    for member_id, claimed in claims:
        for claim in claimed:
            topic = topics.by_name(claim.topic)
            if topic is None:
                continue
            free = frozenset(one for one in claim.partitions if (topic.topic_id, one) not in taken)
            taken |= {(topic.topic_id, one) for one in free}
            if free:
                owned[member_id][topic.topic_id] = owned[member_id].get(topic.topic_id, frozenset()) | free
    return dict(owned)


def _subscription_of(classic: ClassicGroup, member: ClassicMember) -> Subscription:
    """Return the subscription under the chosen protocol, or before one is chosen, under the preferred one."""
    offered = dict(member.protocols)
    metadata = offered.get(classic.protocol_name or "", member.protocols[0].metadata)
    try:
        return decode_subscription(metadata)
    except KafkaError as error:
        raise _refusal(classic, "the embedded consumer protocol is malformed") from error


def _assigned_to(classic: ClassicGroup, member: ClassicMember) -> Sequence[OwnedTopic]:
    """Return the assigned partitions: none before its first assignment, or after a rebalance took it back."""
    if not member.assignment:
        return []
    try:
        assignment = decode_assignment(member.assignment)
    except KafkaError as error:
        raise _refusal(classic, "the embedded consumer protocol is malformed") from error
    if assignment.user_data:
        raise _refusal(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade",
        )
    return assignment.assigned_partitions


def _gives_all(group: ConsumerGroup, topics: TopicsView) -> bool:
    """Return True if each partition has a member: leaders notice new topics and partitions with a delay."""
    found = (topics.by_name(name) for name in group.subscribed_topics)
    return all(
        sum(len(target.get(topic.topic_id, ())) for target in group.targets.values()) >= topic.num_partitions
        for topic in found
        if topic is not None
    )


def _records_of(
    shard: GroupShard, classic: ClassicGroup, members: list[tuple[ConsumerMember, Assignment]]
) -> list[ConsumerGroupRecord]:
    group_id, epoch = classic.group_id, classic.generation_id
    names = {name for member, _ in members for name in member.topic_names}
    target_epoch = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
    return [
        *(member.metadata_record(group_id) for member, _ in members),
        epoch_record(group_id, epoch, group_hash(names, shard.topics)),
        *(target_record(group_id, member.member_id, assigned) for member, assigned in members),
        ConsumerGroupTargetAssignmentMetadataRecord(group_id, target_epoch),
        *(member.current_assignment_record(group_id) for member, _ in members),
    ]
