"""What a group that changes its protocol has to do: timers of classic members of a consumer group, and what
follows once the records of the change were replayed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.groupcoord.classic.member_commands import Protocol
from ottla.groupcoord.timeline import Event, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireMemberJoin:
    """A classic member of a consumer group was told to join again, and had its rebalance timeout for it."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireMemberSync:
    """A classic member of a consumer group joined, and had its rebalance timeout to ask for its
    assignment.
    """

    group_id: str
    member_id: str


# ---- from the core itself ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishUpgrade:
    """The group is a consumer group now; what no record holds goes on in it."""

    group_id: str
    timeline: Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDowngrade:
    """The group is a classic group now; what no record holds goes on in it."""

    group_id: str
    events: Sequence[Event]
    timeline: Timeline
    protocols: Mapping[str, Sequence[Protocol]]  # what each member offers besides the chosen one
    must_rebalance: bool
