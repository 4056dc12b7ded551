"""One step of a member towards its target (KIP-848): first give up, then take what is free.

A member takes a partition only if it has no owner: it is free as soon as its owner no longer reports it. So
members that keep their partitions are never stopped.
"""

from collections.abc import Callable, Sequence, Set

from ottla.groupcoord.assignment import Assignment, OwnedEpochs, TopicPartitions, owns_any
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.member_state import MOVES, MemberState
from ottla.logstore.words.errors import ErrorCode, KafkaError

NO_OWNER = -1
_NOTHING: frozenset[int] = frozenset()


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Assignment,
    subscribed_ids: Set[bytes],
    owner_epoch: Callable[[bytes, int], int],
    owned: Sequence[TopicPartitions] | None,
    subscription_changed: bool,
) -> ConsumerMember:
    """Return the member after the next step, or the same object if it has to wait.

    `owner_epoch` returns the epoch of a partition's owner, `NO_OWNER` if it has none; `owned` has the
    partitions that the member reports, None if it reports nothing. FENCED_MEMBER_EPOCH if its state is
    unknown here.
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == target_epoch:
                return _stripped(member, subscribed_ids, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if owns_any(owned, member.pending_revocation):
                return _stripped(member, subscribed_ids, owned) if subscription_changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            pass
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
    after = _next(member, target_epoch, target, subscribed_ids, owner_epoch, owned)
    assert after.state in MOVES[member.state], (member, after)
    return after


def _stripped(
    member: ConsumerMember, subscribed_ids: Set[bytes], owned: Sequence[TopicPartitions] | None
) -> ConsumerMember:
    """Return the member without topics that it no longer subscribes to; it has to give these up."""
    gone = member.assigned.keys() - subscribed_ids
    # Kafka rewrites a member that subscribes to nothing even if that takes nothing from it.
    if not gone and (subscribed_ids or member.pending_revocation):
        return member
    kept = {topic_id: member.assigned[topic_id] for topic_id in member.assigned if topic_id not in gone}
    revoked = dict(member.pending_revocation)
    for topic_id in gone:
        revoked[topic_id] = {**revoked.get(topic_id, {}), **member.assigned[topic_id]}
    if revoked and owns_any(owned, revoked):
        return member.at_epoch(
            member.member_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    return member.at_epoch(member.member_epoch, assigned=kept)


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    subscribed_ids: Set[bytes],
    owner_epoch: Callable[[bytes, int], int],
    owned: Sequence[TopicPartitions] | None,
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    free: dict[bytes, list[int]] = {}
    is_waiting = False
    for topic_id in target.keys() | member.assigned.keys():
        wanted = target.get(topic_id, _NOTHING) if topic_id in subscribed_ids else _NOTHING
        current = member.assigned.get(topic_id, {})
        if not current and topic_id not in member.pending_revocation:
            # As for a new member, which may have ten thousand topics.
            available = [each for each in wanted if owner_epoch(topic_id, each) == NO_OWNER]
            is_waiting = is_waiting or len(available) < len(wanted)
            if available:
                free[topic_id] = available
            continue
        keep = {partition: epoch for partition, epoch in current.items() if partition in wanted}
        if keep:
            kept[topic_id] = keep
        if len(keep) < len(current):
            revoked[topic_id] = {
                partition: epoch for partition, epoch in current.items() if partition not in wanted
            }
        # A partition that it is giving up itself counts as free: no other member can have it.
        own = member.pending_revocation.get(topic_id, {})
        missing = [partition for partition in wanted if partition not in keep]
        available = [
            partition
            for partition in missing
            if partition in own or owner_epoch(topic_id, partition) == NO_OWNER
        ]
        is_waiting = is_waiting or len(available) < len(missing)
        if available:
            free[topic_id] = available
    if revoked and owns_any(owned, revoked):
        return member.at_epoch(
            member.member_epoch if member.state is not MemberState.UNKNOWN else target_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    for topic_id, partitions in free.items():
        taken = dict.fromkeys(partitions, target_epoch)
        kept[topic_id] = {**kept[topic_id], **taken} if topic_id in kept else taken
    assigned: OwnedEpochs = kept
    return member.at_epoch(
        target_epoch,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned=assigned,
        pending_revocation={},
    )
