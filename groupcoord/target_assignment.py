"""The target of a consumer group: who shall own what, made by an assignor for one group epoch."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from groupcoord.assignment import Assignment, listed
from groupcoord.assignor_spec import GroupSpec, MemberSpec
from groupcoord.consumer_group import ConsumerGroup
from groupcoord.consumer_member import ConsumerMember
from groupcoord.consumer_records import (
    ConsumerGroupRecord,
    ConsumerGroupTargetAssignmentMemberRecord,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataRecord,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
)
from groupcoord.range_assignor import assign_range
from groupcoord.topics_view import TopicsView
from groupcoord.uniform_assignor import assign_uniform

# In Kafka's default order of `group.consumer.assignors`.
ASSIGNORS: Mapping[str, Callable[[GroupSpec], dict[str, Assignment]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}


class TargetChange(NamedTuple):
    """A new target: records of what differs from the old one, and the whole of it."""

    records: list[ConsumerGroupRecord]
    targets: Mapping[str, Assignment]


def compute_target(
    group: ConsumerGroup,
    topics: TopicsView,
    *,
    epoch: int,
    assignor: str,
    now_ms: int,
    changed: ConsumerMember | None = None,
) -> TargetChange:
    """The target for that group epoch, with one member as it is about to be."""
    members = dict(group.members)
    targets: dict[str, Assignment] = dict(group.targets)
    if changed is not None:
        before = group.static_member(changed.instance_id)
        if before is not None and before.member_id != changed.member_id:
            # It takes the place of the one that had its instance.
            members.pop(before.member_id, None)
            targets[changed.member_id] = targets.pop(before.member_id, {})
        members[changed.member_id] = changed
    spec = _spec(group, members.values(), targets, topics)
    computed = ASSIGNORS[assignor](spec)
    records: list[ConsumerGroupRecord] = [
        target_record(group.group_id, member_id, computed.get(member_id, {}))
        for member_id in sorted(members)
        if group.targets.get(member_id) != computed.get(member_id, {})
    ]
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    records.append(ConsumerGroupTargetAssignmentMetadataRecord(group.group_id, value))
    return TargetChange(records, computed)


def topic_ids(names: Collection[str], topics: TopicsView) -> frozenset[bytes]:
    """The ids of those topics that exist."""
    found = (topics.by_name(name) for name in names)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def _spec(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    targets: Mapping[str, Assignment],
    topics: TopicsView,
) -> GroupSpec:
    ids_of: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
    specs = []
    for member in members:
        subscription = (member.topic_names, member.topic_regex)
        if subscription not in ids_of:
            ids_of[subscription] = topic_ids(group.topics_of(member), topics)
        specs.append(
            MemberSpec(
                member.member_id,
                member.instance_id,
                ids_of[subscription],
                targets.get(member.member_id, {}),
            )
        )
    partitions = {}
    for topic_id in frozenset().union(*ids_of.values()):
        topic = topics.by_id(topic_id)
        assert topic is not None
        partitions[topic_id] = topic.num_partitions
    return GroupSpec(specs, len(set(ids_of.values())) <= 1, partitions)


def target_record(
    group_id: str, member_id: str, target: Assignment
) -> ConsumerGroupTargetAssignmentMemberRecord:
    """The record that gives a member that target."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in listed(target)
        ]
    )
    return ConsumerGroupTargetAssignmentMemberRecord(group_id, member_id, value)
