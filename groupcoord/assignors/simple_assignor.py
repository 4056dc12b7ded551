"""The assignor `simple` of share groups (KIP-932): every partition has members, and may have many.

It assigns as Apache Kafka's does, to the partition, so it keeps the order of Java's hash maps
(`java_hash_order`). Each partition is shared by as many members as are needed for every member to have one.
Members keep the partitions that they have, give up those beyond their share, and take those that too few
members have.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.java_hash_order import (
    JavaHashMap,
    hash_of_int,
    hash_of_partition,
    hash_of_string,
    hash_of_uuid,
    table_for_copy,
    table_for_mappings,
)

SIMPLE: Final = "simple"

Partition: TypeAlias = tuple[bytes, int]
P = TypeVar("P", int, Partition)


class ShareMemberSpec(NamedTuple):
    """A member: the existing topics that it subscribes to, in their order, and its present target."""

    member_id: str
    topic_ids: Sequence[bytes]
    assigned: Assignment


class ShareGroupSpec(NamedTuple):
    """A share group: its members, in the order in which Kafka fills its map, and the assignable partitions.

    `partitions` has them by topic, in rising order.
    """

    members: Sequence[ShareMemberSpec]
    is_homogeneous: bool  # all members subscribe to the same names
    partitions: Mapping[bytes, Sequence[int]]


def assign_simple(group: ShareGroupSpec) -> dict[str, Assignment]:
    """Return each member's partitions."""
    if not group.members:
        return {}
    members: JavaHashMap[str, ShareMemberSpec] = JavaHashMap(hash_of_string)
    for member in group.members:
        members[member.member_id] = member
    ordered = [members[member_id] for member_id in members.ordered()]
    assign = _assign_homogeneous if group.is_homogeneous else _assign_by_topic
    return assign(ordered, group.partitions)


def _assign_homogeneous(
    members: Sequence[ShareMemberSpec], partitions: Mapping[bytes, Sequence[int]]
) -> dict[str, Assignment]:
    """Assign the partitions of all topics together: the members subscribe to the same topics."""
    topic_ids = members[0].topic_ids
    if not topic_ids:
        return {member.member_id: {} for member in members}
    wanted = [(topic_id, number) for topic_id in topic_ids for number in partitions.get(topic_id, ())]
    sharing = _Sharing(len(wanted), range(len(members)), hash_of_partition_key)
    subscribed = frozenset(topic_ids)
    for number, member in enumerate(members):
        for partition in _in_order(member.assigned, subscribed):
            sharing.hold(number, partition)
    unfilled = {number for number in range(len(members)) if sharing.lacks(number)}
    sharing.revoke_from_overfilled(range(len(members)))
    unfilled |= sharing.revoke_from_overshared()
    sharing.assign_remaining(wanted, unfilled)
    assigned: dict[str, Assignment] = {}
    for number, member in enumerate(members):
        by_topic: dict[bytes, set[int]] = {}
        for topic_id, partition_number in sharing.held_by(number):
            by_topic.setdefault(topic_id, set()).add(partition_number)
        assigned[member.member_id] = {topic_id: frozenset(one) for topic_id, one in by_topic.items()}
    return assigned


def _assign_by_topic(
    members: Sequence[ShareMemberSpec], partitions: Mapping[bytes, Sequence[int]]
) -> dict[str, Assignment]:
    """Assign each topic by itself among its subscribers: the members subscribe to different topics.

    Partitions of topics without subscribers stay in the targets that have them, as in Kafka.
    """
    subscribers: dict[bytes, list[int]] = {}
    for number, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(number)
    if not subscribers:
        return {member.member_id: {} for member in members}
    held = [dict(member.assigned) for member in members]
    holders: dict[bytes, list[int]] = {}
    for number, member in enumerate(members):
        for topic_id in member.assigned:
            holders.setdefault(topic_id, []).append(number)
    for topic_id, numbers in subscribers.items():
        wanted = partitions.get(topic_id, ())
        sharing = _Sharing(len(wanted), numbers, hash_of_int)
        for number in holders.get(topic_id, ()):
            for partition in _numbers_in_order(members[number].assigned[topic_id]):
                sharing.hold(number, partition)
        sharing.revoke_from_overfilled(sharing.holders())
        sharing.revoke_from_overshared()
        sharing.assign_remaining(wanted, {number for number in numbers if sharing.lacks(number)})
        for number in sharing.holders():
            one = sharing.held_by(number)
            if one:
                held[number][topic_id] = frozenset(one)
            else:
                held[number].pop(topic_id, None)
    return {member.member_id: held[number] for number, member in enumerate(members)}


class _Sharing(Generic[P]):
    """The distribution of partitions among members, which are numbers here, while it is made."""

    def __init__(self, wanted: int, members: Sequence[int], hash_of: Callable[[P], int]) -> None:
        self._members_per_partition = 0 if wanted == 0 else -(-len(members) // wanted)
        each = self._members_per_partition * wanted / len(members)
        self._desired = {
            member: ceil(each * (place + 1)) - ceil(each * place) for place, member in enumerate(members)
        }
        self._hash_of: Callable[[P], int] = hash_of
        self._by_partition: JavaHashMap[P, JavaHashMap[int, None]] = JavaHashMap(
            hash_of, table_for_mappings(wanted)
        )
        self._by_member: JavaHashMap[int, JavaHashMap[P, None]] = JavaHashMap(
            hash_of_int, table_for_mappings(len(members))
        )

    def hold(self, member: int, partition: P) -> None:
        """Add the partition to those that the member holds."""
        self._members_of(partition)[member] = None
        partitions = self._by_member.compute_if_absent(member, lambda: JavaHashMap(self._hash_of))
        partitions[partition] = None

    def holders(self) -> list[int]:
        """Return the members that hold or have held a partition."""
        return self._by_member.ordered()

    def held_by(self, member: int) -> list[P]:
        """Return the partitions that the member holds."""
        partitions = self._by_member.get(member)
        return [] if partitions is None else partitions.ordered()

    def lacks(self, member: int) -> bool:
        """Return True if the member holds less than its share."""
        partitions = self._by_member.get(member)
        return (0 if partitions is None else len(partitions)) < self._desired.get(member, 0)

    def revoke_from_overfilled(self, members: Iterable[int]) -> None:
        """Take the partitions beyond its share from each of these members."""
        for member in members:
            partitions = self._by_member.get(member)
            desired = self._desired.get(member, 0)
            if partitions is None or len(partitions) <= desired:
                continue
            for partition in partitions.ordered()[: len(partitions) - desired]:
                self._revoke(member, partition)

    def revoke_from_overshared(self) -> set[int]:
        """Take partitions from members where too many hold the same one; return those members."""
        reduced: set[int] = set()
        for partition in self._by_partition.ordered():
            members = self._by_partition[partition]
            for member in members.ordered()[: max(len(members) - self._members_per_partition, 0)]:
                self._revoke(member, partition)
                reduced.add(member)
        return reduced

    def assign_remaining(self, wanted: Iterable[P], unfilled: set[int]) -> None:
        """Give partitions that too few members hold to members below their share."""
        for partition in wanted:
            self._members_of(partition)
        waiting = iter(sorted(unfilled))
        is_round_used = False  # True once a member got a partition since `waiting` began
        for partition in self._by_partition.ordered():
            members = self._by_partition[partition]
            missing = self._members_per_partition - len(members)
            while missing > 0:
                member = next(waiting, None)
                if member is None:
                    if not is_round_used or not unfilled:
                        break
                    waiting, is_round_used = iter(sorted(unfilled)), False
                elif member not in members:
                    self.hold(member, partition)
                    missing -= 1
                    is_round_used = True
                    if not self.lacks(member):
                        unfilled.discard(member)
            if not unfilled:
                break

    def _members_of(self, partition: P) -> JavaHashMap[int, None]:
        return self._by_partition.compute_if_absent(partition, lambda: JavaHashMap(hash_of_int))

    def _revoke(self, member: int, partition: P) -> None:
        self._by_partition[partition].remove(member)
        self._by_member[member].remove(partition)


def hash_of_partition_key(partition: Partition) -> int:
    """Return the hash of Kafka's TopicIdPartition."""
    return hash_of_partition(*partition)


def _in_order(assigned: Assignment, topic_ids: frozenset[bytes]) -> list[Partition]:
    """Return the partitions of these topics in the order in which Kafka iterates over an assignment."""
    topics: JavaHashMap[bytes, frozenset[int]] = JavaHashMap(hash_of_uuid)
    for topic_id, numbers in assigned.items():
        topics[topic_id] = numbers
    return [
        (topic_id, number)
        for topic_id in topics.ordered()
        if topic_id in topic_ids
        for number in _numbers_in_order(topics[topic_id])
    ]


def _numbers_in_order(numbers: frozenset[int]) -> list[int]:
    ordered: JavaHashMap[int, None] = JavaHashMap(hash_of_int, table_for_copy(len(numbers)))
    for number in sorted(numbers):
        ordered[number] = None
    return ordered.ordered()
