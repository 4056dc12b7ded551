"""The target of a consumer group: the partitions of each member, made by an assignor for one group epoch."""

from collections.abc import Collection, Mapping
from itertools import chain
from typing import NamedTuple

from ottla.groupcoord.assignment import Assignment, listed
from ottla.groupcoord.assignors.all_assignors import ASSIGNORS
from ottla.groupcoord.assignors.assignor_spec import GroupSpec, MemberSpec
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupRecord,
    ConsumerGroupTargetAssignmentMemberRecord,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataRecord,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
)
from ottla.groupcoord.consumer.executor_tasks import AssignPartitions
from ottla.groupcoord.topics_view import TopicsView

# A topic of one partition takes an assignor as long as several partitions of a large one.
TOPIC_COUNTS = 4


class TargetChange(NamedTuple):
    """A new target: records of its differences from the old one, and the whole of it."""

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
    """Return the target for that group epoch; `changed` takes the place of the member that it changes."""
    members = dict(group.members)
    targets: dict[str, Assignment] = dict(group.targets)
    if changed is not None:
        before = group.static_member(changed.instance_id)
        if before is not None and before.member_id != changed.member_id:
            # It takes the place of the member that had its instance id.
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


def is_large_target(
    group: ConsumerGroup, topics: TopicsView, limit: int, changed: ConsumerMember | None = None
) -> bool:
    """Return True if an assignor would hold up the loop: members and partitions exceed the limit.

    A topic counts as some partitions more. `changed` is a member as it will be, whose topics the group may
    not have yet.
    """
    size = len(group.members)
    known = group.subscribed_topics
    added = () if changed is None else (name for name in changed.topic_names if name not in known)
    for name in chain(known, added):
        topic = topics.by_name(name)
        size += 0 if topic is None else topic.num_partitions + TOPIC_COUNTS
        if size > limit:
            return True
    return size > limit


def target_task(group: ConsumerGroup, topics: TopicsView, *, epoch: int, assignor: str) -> AssignPartitions:
    """Return the work of `compute_target` as a task for a thread."""
    spec = _spec(group, group.members.values(), group.targets, topics)
    client_host = next(iter(group.members.values())).client_host
    return AssignPartitions(
        group_id=group.group_id, client_host=client_host, epoch=epoch, assignor=assignor, spec=spec
    )


def apply_target(
    group: ConsumerGroup,
    computed: Mapping[str, Assignment],
    instances: Mapping[str, str],
    *,
    epoch: int,
    now_ms: int,
) -> list[ConsumerGroupRecord]:
    """Return the records of a target for the present members.

    Others may have left since it was made. A member that has joined since has nothing yet, but one that
    replaced a member with its instance id gets that member's target.
    """
    records: list[ConsumerGroupRecord] = []
    for member_id, member in sorted(group.members.items()):
        target = computed.get(member_id)
        if target is None and member.instance_id is not None:
            target = computed.get(instances.get(member.instance_id, ""))
        if group.targets.get(member_id) != (target or {}):
            records.append(target_record(group.group_id, member_id, target or {}))
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return [*records, ConsumerGroupTargetAssignmentMetadataRecord(group.group_id, value)]


def topic_ids(names: Collection[str], topics: TopicsView) -> frozenset[bytes]:
    """Return the ids of those topics that exist."""
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
    """Return the record that gives a member that target."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in listed(target)
        ]
    )
    return ConsumerGroupTargetAssignmentMemberRecord(group_id, member_id, value)
