"""What timers bring: ends of sessions and of the phases of a rebalance, and the next look at the offsets."""

from dataclasses import dataclass

from ottla.groupcoord.request_token import Token


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerHeldHeartbeat:
    """A held heartbeat must be answered: its time is over, or its member sent something else."""

    group_id: str
    member_id: str
    held: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeHeldHeartbeats:
    """Held heartbeats of the group are to be decided again, since there may be something to tell."""

    group_id: str
