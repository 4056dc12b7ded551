"""The effects of every coordinator: the records to append, the answers to clients, the timers.

The node carries them out in their order (`coordinators/coordinator_shard`). An `Append` is one batch, all or
nothing. A `Reply` or `Refuse` after an `Append` of the same list leaves when that is committed; a `Reply`
that `shows_state` also waits for all earlier appends, since the state that it shows may not be committed yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ottla.groupcoord.offsets.offset_commands import Producer
from ottla.groupcoord.request_token import Token
from ottla.logstore.verification import Guard
from ottla.logstore.words.errors import ErrorCode

R_co = TypeVar("R_co", covariant=True)  # records
A_co = TypeVar("A_co", covariant=True)  # answers
C_co = TypeVar("C_co", covariant=True)  # commands of timers


class TimerKey(NamedTuple):
    """The name of a timer within a shard; starting a timer again moves it."""

    purpose: str  # "session", "join", "sync", "rebalance", "hold", "expire", ...
    owner_id: str = ""  # the group or the transactional id
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Append(Generic[R_co]):
    records: Sequence[R_co]
    producer: Producer | None = None  # whose transaction has the records: a batch of its own
    guard: Guard | None = None  # what the log checks before it takes the first record


@dataclass(frozen=True, slots=True)
class Reply(Generic[A_co]):
    token: Token
    result: A_co
    shows_state: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """The failure of a whole request with one error."""

    token: Token
    error: ErrorCode
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StartTimer(Generic[C_co]):
    key: TimerKey
    delay_ms: int
    command: C_co


@dataclass(frozen=True, slots=True)
class CancelTimer:
    key: TimerKey
