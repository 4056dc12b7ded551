"""Commands to share groups (KIP-932): of members and administrators, of timers, of the node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.share_state.share_state_words import StateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeat:
    """A heartbeat that joins (epoch 0), stays, or leaves (-1). A field that is None is as it was."""

    token: Token
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroups:
    token: Token
    group_ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSharePartitions:
    """A request for the share-partitions of a group that have state."""

    token: Token
    group_id: str


class NewStart(NamedTuple):
    """A new start offset of a share group in a partition."""

    partition: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsets:
    token: Token
    group_id: str
    topics: Sequence[tuple[str, Sequence[NewStart]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsets:
    token: Token
    group_id: str
    topics: Sequence[str]


# ---- from timers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireShareSession:
    """The end of the session of a silent member of a share group."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetShareTopics:
    """The next look for deleted topics in the states of share groups."""


# ---- from the node -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateInitialized:
    """The persister's answer: the state of some share-partitions of a group began, or could not.

    `waiting_request` is the request that waits for it, None for a heartbeat, which did not wait.
    """

    group_id: str
    job: int
    results: Sequence[StateResult]
    waiting_request: AlterShareGroupOffsets | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateDeleted:
    """The persister's answer: the state of some share-partitions was deleted, or could not be.

    `waiting_request` is the request that waits for it, if any.
    """

    job: int
    results: Sequence[StateResult]
    waiting_request: DeleteShareGroupOffsets | DeleteGroups | None


ShareCommand: TypeAlias = (
    ShareGroupHeartbeat
    | DescribeShareGroups
    | ListSharePartitions
    | AlterShareGroupOffsets
    | DeleteShareGroupOffsets
    | ShareStateInitialized
    | ShareStateDeleted
    | ExpireShareSession
    | ForgetShareTopics
)
