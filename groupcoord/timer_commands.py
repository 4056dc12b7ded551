"""The commands of timers: ends of sessions and of rebalance phases, and the next look at the offsets."""

from dataclasses import dataclass

from ottla.groupcoord.request_token import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSession:
    """The end of the session of a silent member, or of a pending one that did not come back."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendInitialRebalance:
    """The end of a new group's initial delay: its first join completes, or waits on if more members came."""

    group_id: str
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireJoin:
    """The end of the rebalance timeout: members that have not joined are removed."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSync:
    """The end of the time in which members of this generation have to ask for their assignment."""

    group_id: str
    generation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOffsets:
    """The next look for offsets and groups that are no longer needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerHeldHeartbeat:
    """The end of a held heartbeat: its time is over, or its member sent another request."""

    group_id: str
    member_id: str
    held: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeHeldHeartbeats:
    """The next decision over a group's held heartbeats: their members may have something to learn."""

    group_id: str
