"""The server-side assignor `uniform`: it gives members equal numbers of partitions, and moves few of them.

Balance goes before stickiness. This module has the case of members that all subscribe to the same topics,
`uniform_mixed` the other.
"""

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.assignors.assignor_spec import GroupSpec
from ottla.groupcoord.assignors.uniform_mixed import assign_uniform_mixed


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """Return each member's partitions."""
    if not group.members:
        return {}
    return _assign_homogeneous(group) if group.is_homogeneous else assign_uniform_mixed(group)


def _assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    """Assign shares that differ by one at most; only members above their share give partitions up."""
    topic_ids = sorted(group.members[0].topic_ids)
    total = sum(group.partitions[topic_id] for topic_id in topic_ids)
    size, extra = divmod(total, len(group.members))
    # The larger shares go to the members that have most already, so that they need not give that partition up
    # (D18). Apache Kafka gives them out in the order of a hash map.
    held = {
        member.member_id: sum(len(member.assigned.get(topic_id, ())) for topic_id in topic_ids)
        for member in group.members
    }
    members = sorted(group.members, key=lambda member: (-held[member.member_id], member.member_id))
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    assigned: dict[str, dict[bytes, frozenset[int]]] = {}
    room: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        quota = size + (index < extra)
        keep: dict[bytes, frozenset[int]] = {}
        for topic_id in topic_ids:
            kept = member.assigned.get(topic_id)
            if kept is None or quota == 0:
                continue
            count = group.partitions[topic_id]
            kept = frozenset(partition for partition in kept if partition < count) - taken[topic_id]
            if len(kept) > quota:
                kept = frozenset(sorted(kept)[:quota])
            if kept:
                keep[topic_id] = kept
                taken[topic_id] |= kept
                quota -= len(kept)
        assigned[member.member_id] = keep
        if quota:
            room.append((member.member_id, quota))
    left = iter(
        [
            (topic_id, partition)
            for topic_id in topic_ids
            for partition in range(group.partitions[topic_id])
            if partition not in taken[topic_id]
        ]
    )
    for member_id, quota in room:
        more: dict[bytes, list[int]] = {}
        for _, (topic_id, partition) in zip(range(quota), left, strict=False):
            more.setdefault(topic_id, []).append(partition)
        keep = assigned[member_id]
        for topic_id, partitions in more.items():
            keep[topic_id] = keep.get(topic_id, frozenset()).union(partitions)
    return dict(assigned)
