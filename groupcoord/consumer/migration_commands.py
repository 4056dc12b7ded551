"""The commands of a group that changes its protocol.

They are timers of classic members of a consumer group, and commands that follow the records of the change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.groupcoord.classic.member_commands import Protocol
from ottla.groupcoord.timeline import Event, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireMemberJoin:
    """The end of the time in which a classic member of a consumer group had to join again."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireMemberSync:
    """The end of the time in which a classic member of a consumer group had to ask for its assignment."""

    group_id: str
    member_id: str


# ---- from the core itself ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishUpgrade:
    """The end of an upgrade: the consumer group takes over the state that no record holds."""

    group_id: str
    timeline: Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDowngrade:
    """The end of a downgrade: the classic group takes over the state that no record holds."""

    group_id: str
    events: Sequence[Event]
    timeline: Timeline
    protocols: Mapping[str, Sequence[Protocol]]  # all that each member offers
    must_rebalance: bool
