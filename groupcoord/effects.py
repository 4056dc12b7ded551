"""What a shard asks of the world, and what it answers to clients.

The node carries effects out in their order. An `Append` is one batch, all or nothing. A `Reply` after an
`Append` of the same list leaves when that is committed; one that `shows_state` also waits for all appends
before it, since the state that it shows may not be committed yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from groupcoord.commands import TimerCommand, Token
from groupcoord.group_records import GroupRecord
from logstore.errors import ErrorCode

# ---- results -----------------------------------------------------------------------------------------------


class JoinedMember(NamedTuple):
    """What the leader learns of a member."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResult:
    error: ErrorCode = ErrorCode.NONE
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: Sequence[JoinedMember] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResult:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    error: ErrorCode = ErrorCode.NONE


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResult:
    members: Sequence[LeftMember]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResult:
    errors: Sequence[ErrorCode]  # one for each offset of the command, in its order


class FetchedOffset(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResult:
    topics: Sequence[tuple[str, Sequence[FetchedOffset]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResult:
    topics: Sequence[tuple[str, Sequence[tuple[int, ErrorCode]]]]


class MemberDescription(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: Sequence[MemberDescription] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResult:
    groups: Sequence[GroupDescription]


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResult:
    groups: Sequence[ListedGroup]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResult:
    errors: Sequence[tuple[str, ErrorCode]]  # one for each group of the command, in its order


Result: TypeAlias = (
    JoinGroupResult
    | SyncGroupResult
    | HeartbeatResult
    | LeaveGroupResult
    | OffsetCommitResult
    | OffsetFetchResult
    | OffsetDeleteResult
    | DescribeGroupsResult
    | ListGroupsResult
    | DeleteGroupsResult
)

# ---- effects -----------------------------------------------------------------------------------------------


class TimerKey(NamedTuple):
    """The name of a timer within a shard; starting it again moves it."""

    purpose: str  # "session", "join", "sync", "offsets"
    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Append:
    records: Sequence[GroupRecord]


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


Effect: TypeAlias = Append | Reply | Refuse | StartTimer | CancelTimer
