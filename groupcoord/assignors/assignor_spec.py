"""The input of an assignor of consumer groups."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.groupcoord.assignment import Assignment


class MemberSpec(NamedTuple):
    """A member: the existing topics that it subscribes to, and its present target."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    assigned: Assignment


class GroupSpec(NamedTuple):
    """A group: its members, and the number of partitions of each topic."""

    members: Sequence[MemberSpec]
    is_homogeneous: bool  # all members subscribe to the same topics
    partitions: Mapping[bytes, int]
