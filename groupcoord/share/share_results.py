"""The results for members of share groups, and for their administrators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.groupcoord.assignment import TopicPartitions
from ottla.groupcoord.consumer.consumer_results import NamedPartitions
from ottla.groupcoord.share.share_member import ShareMember
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema import ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Sequence[TopicPartitions] | None = None  # None: as it was


class ShareMemberDescription(NamedTuple):
    """A member, with the topic names of its partitions."""

    member: ShareMember
    assigned: Sequence[NamedPartitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    detail: str = ""
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Sequence[ShareMemberDescription] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupsResult:
    groups: Sequence[ShareGroupDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSharePartitionsResult:
    """The share-partitions of a group that have state, of topics that exist."""

    topics: Sequence[NamedPartitions]


class AlteredPartition(NamedTuple):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    detail: str | None = None


class AlteredTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: Sequence[AlteredPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResult:
    topics: Sequence[AlteredTopic]


class DeletedTopic(NamedTuple):
    name: str
    topic_id: bytes = ZERO_UUID
    error: ErrorCode = ErrorCode.NONE
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResult:
    topics: Sequence[DeletedTopic]
