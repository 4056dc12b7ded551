"""The results of administrators' commands over groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.groupcoord.timeline import Rebalance
from ottla.logstore.words.errors import ErrorCode


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
    detail: str = ""
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: Sequence[MemberDescription] = ()
    rebalances: Sequence[Rebalance] = ()  # the last ones, oldest first; Ottla's own, in a tagged field (D20)


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
