"""The effects of the transaction coordinator: those of every coordinator, and its own.

`SendMarkers` waits, as an answer does, until the `Append`s before it are committed: a marker is never undone,
so the decision must be safe first.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ottla.groupcoord.coordinator_effects import Append, CancelTimer, Refuse, Reply, StartTimer, TimerKey
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.transactions.transaction_commands import AbortTimedOut, NeedsIdCommand, TimerCommand
from ottla.groupcoord.transactions.transaction_records import TransactionRecord
from ottla.groupcoord.transactions.transaction_results import Result
from ottla.logstore.words.topic_partition import TopicPartition

__all__ = [
    "Append",
    "CancelTimer",
    "CloseWithoutResponse",
    "Effect",
    "MarkerJob",
    "NeedProducerId",
    "Refuse",
    "Reply",
    "SendMarkers",
    "StartTimer",
    "TimerKey",
]


@dataclass(frozen=True, slots=True)
class CloseWithoutResponse:
    """The end of a request's connection, without an answer."""

    token: Token


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """A request for an unused producer id, with which the command comes back."""

    command: NeedsIdCommand

    @property
    def token(self) -> Token | None:
        """The token of the request that waits for the id; None if the coordinator itself needs it."""
        return None if isinstance(self.command, AbortTimedOut) else self.command.token


class MarkerJob(NamedTuple):
    """The end of a transaction, to be sent to the leaders of its partitions."""

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


Effect: TypeAlias = (
    Append[TransactionRecord]
    | Reply[Result]
    | Refuse
    | StartTimer[TimerCommand]
    | CancelTimer
    | CloseWithoutResponse
    | NeedProducerId
    | SendMarkers
)
