"""What a shard of the group coordinator can be asked.

A command with a `token` comes from a client: every token is answered exactly once, by a `Reply` or a
`Refuse`, perhaps much later. Commands without one come from timers and from the node. Versions of the
protocol end at the request handlers; where they differ in meaning, a field says which meaning is wanted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Token: TypeAlias = int


class Protocol(NamedTuple):
    """One protocol (for consumers: an assignor) that a member offers, and what it says to the leader under
    it.
    """

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    token: Token
    group_id: str
    member_id: str  # empty for a member that has none yet
    group_instance_id: str | None = None  # KIP-345: a static member
    client_id: str = ""
    client_host: str = ""
    protocol_type: str
    protocols: Sequence[Protocol]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    reason: str | None = None
    member_id_required: bool = True  # KIP-394: since version 4 a new member is first only told its id
    can_skip_assignment: bool = (
        True  # KIP-814: since version 9 a returning leader may be told to assign nothing
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    token: Token
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None  # None: not to be checked
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()  # member id, assignment; from the leader only


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    token: Token
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class MemberIdentity(NamedTuple):
    """Who is to leave: by member id, or by instance id alone (an administrator's way to remove a static
    member).
    """

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    token: Token
    group_id: str
    members: Sequence[MemberIdentity]


class OffsetToCommit(NamedTuple):
    """One partition's position, as a member or an administrator wants it kept."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    token: Token
    group_id: str
    generation_id: int  # -1 from outside the group's management
    member_id: str
    group_instance_id: str | None = None
    retention_time_ms: int = -1  # versions 2 to 4: the offset's own retention
    offsets: Sequence[OffsetToCommit]
    unknown_group_is_illegal_generation: bool = False  # before version 9


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    token: Token
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None  # topic, partitions; None: all that the group has
    require_stable: bool = False  # KIP-447: not while a transaction may still change the offset


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    token: Token
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroups:
    token: Token
    group_ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    token: Token
    states: frozenset[str] = field(default_factory=frozenset)  # lower case; empty: all
    types: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    token: Token
    group_ids: Sequence[str]


# ---- from timers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSession:
    """A member was silent for its session timeout, or a pending one did not come back."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendInitialRebalance:
    """The initial delay of a new group is over: complete its first join, or wait on if more members came."""

    group_id: str
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireJoin:
    """The rebalance timeout is over: whoever has not joined is out."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSync:
    """The rebalance timeout is over and some members of this generation never asked for their assignment."""

    group_id: str
    generation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOffsets:
    """Time to look for offsets and groups that nobody needs any more."""


# ---- from the node -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """These topics were deleted: their offsets go too."""

    topics: frozenset[str]


ClientCommand: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | OffsetDelete
    | DescribeGroups
    | ListGroups
    | DeleteGroups
)
TimerCommand: TypeAlias = ExpireSession | ExtendInitialRebalance | ExpireJoin | ExpireSync | ExpireOffsets
Command: TypeAlias = ClientCommand | TimerCommand | ForgetTopics
