"""What a shard of the transaction coordinator asks of the world, and what it answers.

The node carries effects out in their order. An `Append` is one batch, all or nothing. A `Reply` or `Refuse`
after an `Append` of the same list leaves when that is committed; a reply that `shows_state` also waits for
all appends before it. `SendMarkers` waits for the `Append`s before it in the same way: a marker is never
undone, so the decision must be safe first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.transactions.transaction_commands import NeedsIdCommand, TimerCommand
from ottla.groupcoord.transactions.transaction_records import TransactionRecord
from ottla.groupcoord.transactions.transaction_results import Result
from ottla.logstore.errors import ErrorCode
from ottla.logstore.topic_partition import TopicPartition


class TimerKey(NamedTuple):
    """The name of a timer within a shard; starting it again moves it."""

    purpose: str  # "timeouts", "expire", "hold"
    transactional_id: str = ""


@dataclass(frozen=True, slots=True)
class Append:
    records: Sequence[TransactionRecord]


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
class CloseAsker:
    """No answer; the connection over which this was asked is closed."""

    token: Token


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """Hand the command in again with a producer id that nobody has."""

    command: NeedsIdCommand


class MarkerJob(NamedTuple):
    """The end of a transaction, to be told to the leaders of its partitions."""

    transactional_id: str
    producer_id: int
    marker_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int  # of its client: leaders judge the marker's epoch by it (KIP-1228)
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class SendMarkers:
    job: MarkerJob


@dataclass(frozen=True, slots=True)
class StartTimer:
    key: TimerKey
    delay_ms: int
    command: TimerCommand


@dataclass(frozen=True, slots=True)
class CancelTimer:
    key: TimerKey


Effect: TypeAlias = (
    Append | Reply | Refuse | CloseAsker | NeedProducerId | SendMarkers | StartTimer | CancelTimer
)
