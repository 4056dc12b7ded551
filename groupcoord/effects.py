"""The effects of the group coordinator: those of every coordinator, and its own."""

from dataclasses import dataclass
from typing import TypeAlias

from ottla.groupcoord.admin_results import DeleteGroupsResult, DescribeGroupsResult, ListGroupsResult
from ottla.groupcoord.classic.member_results import (
    HeartbeatResult,
    JoinGroupResult,
    LeaveGroupResult,
    SyncGroupResult,
)
from ottla.groupcoord.commands import ClientCommand, InnerCommand, TimerCommand
from ottla.groupcoord.consumer.consumer_results import (
    ConsumerGroupHeartbeatResult,
    DescribeConsumerGroupsResult,
)
from ottla.groupcoord.consumer.executor_tasks import ExecutorTask
from ottla.groupcoord.coordinator_effects import Append, CancelTimer, Refuse, Reply, StartTimer, TimerKey
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetDeleteResult, OffsetFetchResult
from ottla.groupcoord.record_codec import AppendedRecord
from ottla.groupcoord.share.share_effects import DeleteShareState, InitializeShareState, PersisterRequest
from ottla.groupcoord.share.share_results import (
    AlterShareGroupOffsetsResult,
    DeleteShareGroupOffsetsResult,
    DescribeShareGroupsResult,
    ListSharePartitionsResult,
    ShareGroupHeartbeatResult,
)
from ottla.groupcoord.timeline import Event

__all__ = [
    "AddTimelineEvent",
    "Append",
    "CancelTimer",
    "ContinueWith",
    "DeleteShareState",
    "Effect",
    "InitializeShareState",
    "PersisterRequest",
    "Refuse",
    "Reply",
    "Result",
    "RunTask",
    "StartTimer",
    "TimerKey",
]

Result: TypeAlias = (
    JoinGroupResult
    | SyncGroupResult
    | HeartbeatResult
    | ConsumerGroupHeartbeatResult
    | LeaveGroupResult
    | OffsetCommitResult
    | OffsetFetchResult
    | OffsetDeleteResult
    | DescribeGroupsResult
    | DescribeConsumerGroupsResult
    | ShareGroupHeartbeatResult
    | DescribeShareGroupsResult
    | ListSharePartitionsResult
    | AlterShareGroupOffsetsResult
    | DeleteShareGroupOffsetsResult
    | ListGroupsResult
    | DeleteGroupsResult
)


@dataclass(frozen=True, slots=True)
class ContinueWith:
    """A command that the coordinator handles next, after it has replayed the appends before it."""

    command: ClientCommand | InnerCommand


@dataclass(frozen=True, slots=True)
class AddTimelineEvent:
    """The cause of a rebalance, and the epoch before it, for the timeline of a consumer group.

    The coordinator adds it itself, after it has replayed the records that create the group.
    """

    group_id: str
    event: Event
    group_epoch: int


@dataclass(frozen=True, slots=True)
class RunTask:
    """A task to run in a thread; its result comes back as a command."""

    task: ExecutorTask


Effect: TypeAlias = (
    Append[AppendedRecord]
    | Reply[Result]
    | Refuse
    | StartTimer[TimerCommand]
    | CancelTimer
    | ContinueWith
    | AddTimelineEvent
    | RunTask
    | PersisterRequest
)
