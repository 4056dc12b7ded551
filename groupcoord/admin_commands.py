"""The commands of administrators over groups: DescribeGroups, ListGroups, DeleteGroups."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.groupcoord.request_token import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroups:
    token: Token
    group_ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroups:
    token: Token
    group_ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    token: Token
    states: frozenset[str] = field(default_factory=frozenset)  # in lower case; empty for all
    types: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    token: Token
    group_ids: Sequence[str]
