"""The target of a share group: each member's partitions, by the assignor `simple` for one group epoch."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.assignors.simple_assignor import SIMPLE, ShareGroupSpec, ShareMemberSpec, assign_simple
from ottla.groupcoord.consumer.executor_tasks import AssignPartitions
from ottla.groupcoord.java_hash_order import JavaHashMap, hash_of_string, table_for_copy
from ottla.groupcoord.share.share_group import ShareGroup, ShareStates
from ottla.groupcoord.share.share_member import ShareMember, listed_for_record
from ottla.groupcoord.share.share_records import (
    ShareGroupRecord,
    ShareGroupTargetAssignmentMemberRecord,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataRecord,
    ShareGroupTargetAssignmentMetadataValue,
)
from ottla.groupcoord.topics_view import TopicsView


class ShareTarget(NamedTuple):
    """A new target: records of its differences from the old one, and the whole of it."""

    records: list[ShareGroupRecord]
    targets: Mapping[str, Assignment]


def compute_share_target(
    group: ShareGroup, topics: TopicsView, *, epoch: int, now_ms: int, changed: ShareMember
) -> ShareTarget:
    """Return the target for that group epoch; `changed` takes the place of the member that it changes."""
    members = {**group.members, changed.member_id: changed}
    computed = assign_simple(_spec(group, members.values(), topics))
    return ShareTarget(apply_share_target(group, members, computed, epoch=epoch, now_ms=now_ms), computed)


def apply_share_target(
    group: ShareGroup,
    member_ids: Iterable[str],
    computed: Mapping[str, Assignment],
    *,
    epoch: int,
    now_ms: int,
) -> list[ShareGroupRecord]:
    """Return the records of a target for these members; one that came after it was made has nothing in it."""
    records: list[ShareGroupRecord] = []
    for member_id in sorted(member_ids):
        target = computed.get(member_id, {})
        if group.targets.get(member_id) != target:
            value = ShareGroupTargetAssignmentMemberValue(topic_partitions=listed_for_record(target))
            records.append(ShareGroupTargetAssignmentMemberRecord(group.group_id, member_id, value))
    epoch_value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return [*records, ShareGroupTargetAssignmentMetadataRecord(group.group_id, epoch_value)]


def is_large_share_target(group: ShareGroup, limit: int) -> bool:
    """Return True if the assignor would hold up the loop."""
    states = group.states or ShareStates()
    return (
        sum(len(one.partitions) for one in states.initialized.values()) + sum(group.topics.counts.values())
        > limit
    )


def share_target_task(
    group: ShareGroup, topics: TopicsView, *, epoch: int, changed: ShareMember
) -> AssignPartitions:
    """Return the work of `compute_share_target` as a task for a thread."""
    members = {**group.members, changed.member_id: changed}
    return AssignPartitions(
        group_id=group.group_id,
        client_host=changed.client_host,
        epoch=epoch,
        assignor=SIMPLE,
        spec=_spec(group, members.values(), topics),
    )


def subscribed_part(target: Assignment, member: ShareMember, topics: TopicsView) -> Assignment:
    """Return the part of a target in topics that the member subscribes to."""
    found = {topic_id: topics.by_id(topic_id) for topic_id in target}
    return {
        topic_id: target[topic_id]
        for topic_id, topic in found.items()
        if topic is not None and topic.name in member.topic_names
    }


def _spec(group: ShareGroup, members: Collection[ShareMember], topics: TopicsView) -> ShareGroupSpec:
    counts: dict[str, int] = {}
    specs = []
    for member in members:
        topic_ids = []
        for name in _in_order(member.topic_names):
            counts[name] = counts.get(name, 0) + 1
            topic = topics.by_name(name)
            if topic is not None:
                topic_ids.append(topic.topic_id)
        target = group.targets.get(member.member_id, {})
        specs.append(ShareMemberSpec(member.member_id, topic_ids, target))
    initialized = (group.states or ShareStates()).initialized
    partitions: dict[bytes, list[int]] = {}
    for topic_id, (_, numbers) in initialized.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            partitions[topic_id] = [each for each in sorted(numbers) if each < topic.num_partitions]
    is_homogeneous = all(count == len(members) for count in counts.values())
    return ShareGroupSpec(specs, is_homogeneous, partitions)


def _in_order(names: Collection[str]) -> list[str]:
    """Return the names in the order in which Kafka iterates over a subscription."""
    ordered: JavaHashMap[str, None] = JavaHashMap(hash_of_string, table_for_copy(len(names)))
    for name in sorted(names):
        ordered[name] = None
    return ordered.ordered()
