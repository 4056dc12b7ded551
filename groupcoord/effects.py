"""What a shard asks of the world, and what it answers to clients.

The node carries effects out in their order. An `Append` is one batch, all or nothing. A `Reply` after an
`Append` of the same list leaves when that is committed; one that `shows_state` also waits for all appends
before it, since the state that it shows may not be committed yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ottla.groupcoord.admin_results import DeleteGroupsResult, DescribeGroupsResult, ListGroupsResult
from ottla.groupcoord.aside import AsideWork
from ottla.groupcoord.commands import ClientCommand, InnerCommand, TimerCommand
from ottla.groupcoord.consumer_results import ConsumerGroupHeartbeatResult, DescribeConsumerGroupsResult
from ottla.groupcoord.member_results import (
    HeartbeatResult,
    JoinGroupResult,
    LeaveGroupResult,
    SyncGroupResult,
)
from ottla.groupcoord.offset_commands import Producer
from ottla.groupcoord.offset_results import OffsetCommitResult, OffsetDeleteResult, OffsetFetchResult
from ottla.groupcoord.record_codec import AppendedRecord
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.timeline import Event
from ottla.logstore.errors import ErrorCode
from ottla.logstore.verification import Guard

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
    | ListGroupsResult
    | DeleteGroupsResult
)


class TimerKey(NamedTuple):
    """The name of a timer within a shard; starting it again moves it."""

    purpose: str  # "session", "join", "sync", "rebalance", "member-join", "member-sync", "assign", "offsets"
    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Append:
    records: Sequence[AppendedRecord]
    producer: Producer | None = None  # of offsets that belong to its transaction: a batch of its own
    guard: Guard | None = None  # what the log wants to see before the first of them


@dataclass(frozen=True, slots=True)
class Reply:
    token: Token
    result: Result
    shows_state: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """The whole request fails with one error."""

    token: Token
    error: ErrorCode
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StartTimer:
    key: TimerKey
    delay_ms: int
    command: TimerCommand


@dataclass(frozen=True, slots=True)
class CancelTimer:
    key: TimerKey


@dataclass(frozen=True, slots=True)
class Follow:
    """Decide this once the appends before it were replayed; the core does so itself."""

    command: ClientCommand | InnerCommand


@dataclass(frozen=True, slots=True)
class Noted:
    """Why a consumer group rebalances, and from which epoch; for its timeline, once the group is there."""

    group_id: str
    event: Event
    group_epoch: int


@dataclass(frozen=True, slots=True)
class RunAside:
    """Work to be run in a thread; its result comes back as a command."""

    work: AsideWork


Effect: TypeAlias = Append | Reply | Refuse | StartTimer | CancelTimer | Follow | Noted | RunAside
