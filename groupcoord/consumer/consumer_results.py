"""The results for members of consumer groups, and for their administrators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.groupcoord.assignment import TopicPartitions
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.timeline import Rebalance
from ottla.logstore.words.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Sequence[TopicPartitions] | None = None  # None: as it was


class NamedPartitions(NamedTuple):
    topic_id: bytes
    topic: str
    partitions: Sequence[int]


class ConsumerMemberDescription(NamedTuple):
    """A member, with the topic names of its partitions and of its target."""

    member: ConsumerMember
    assigned: Sequence[NamedPartitions]
    target: Sequence[NamedPartitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    detail: str = ""
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Sequence[ConsumerMemberDescription] = ()
    rebalances: Sequence[Rebalance] = ()  # the last ones, oldest first; Ottla's own, in a tagged field (D20)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroupsResult:
    groups: Sequence[ConsumerGroupDescription]
