"""The server-side assignor `range`: each subscriber of a topic gets a run of its partitions.

Members are taken in one order for all topics, static ones first by their instance id. So topics with the same
number of partitions and the same subscribers are divided alike (co-partitioned), and a restarted static
member gets its partitions back.
"""

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.assignors.assignor_spec import GroupSpec, MemberSpec


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Return each member's partitions; the result does not depend on the present targets."""
    members = sorted(group.members, key=_order)
    subscribers: dict[bytes, list[str]] = {}
    for member in members:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, member_ids in subscribers.items():
        size, extra = divmod(group.partitions[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + size + (index < extra)
            if start < end:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _order(member: MemberSpec) -> tuple[bool, bytes]:
    """Return the sort key of a member: Java compares UTF-16 units, not code points."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be")
