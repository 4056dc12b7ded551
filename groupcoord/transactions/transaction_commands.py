"""The commands of a shard of the transaction coordinator.

A command with a `token` comes from a client or a broker: every token is answered exactly once. Versions of
the protocol end at the request handlers: `client_version` says whether the client's epoch moves with every
end of a transaction (KIP-890), `may_wait` whether the answer may take a moment. If a decision needs a new
producer id, the command comes back with it as `fresh_id`.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import TypeAlias

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.logstore.words.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """An InitProducerId with a transactional id; `expected` is the pair that the client believes it has."""

    token: Token
    transactional_id: str
    timeout_ms: int
    expected: ProducerPair | None = None
    enable_2pc: bool = False
    keep_prepared: bool = False
    may_wait: bool = True
    fresh_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """An AddPartitionsToTxn or AddOffsetsToTxn for one transaction."""

    token: Token
    transactional_id: str
    producer: ProducerPair
    partitions: Set[TopicPartition]
    client_version: int
    may_wait: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """A leader's request before the first append of a transaction: its partitions must be in it."""

    token: Token
    transactional_id: str
    producer: ProducerPair
    partitions: Set[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """An EndTxn. Of two connections of this node, the later one has the higher `connection_number`."""

    token: Token
    transactional_id: str
    producer: ProducerPair
    committed: bool
    client_version: int
    connection_number: int
    fresh_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """A request for transactions; an empty filter, or a `longer_than_ms` below 0, lets all pass."""

    token: Token
    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactions:
    token: Token
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersWritten:
    """A report that these partitions have the marker of the transaction, or are gone."""

    transactional_id: str
    producer_id: int
    marker_epoch: int
    partitions: Set[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTimedOut:
    """The abort of this very transaction, which had timed out when it was looked at."""

    transactional_id: str
    producer: ProducerPair
    fresh_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTimeouts:
    """Timer: abort transactions that are open for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepIds:
    """Timer: remove ids that were not used for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWaiting:
    """Timer: requests have waited for this id's markers for long enough."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChanged:
    """The finalized level of `transaction.version`."""

    level: int


ClientCommand: TypeAlias = (
    InitProducer | AddPartitions | VerifyPartitions | EndTransaction | ListTransactions | DescribeTransactions
)
# Commands that lead to no records; they are carried out even while the log takes none.
ReadOnlyCommand: TypeAlias = (
    VerifyPartitions | ListTransactions | DescribeTransactions | EndWaiting | LevelChanged
)
TimerCommand: TypeAlias = SweepTimeouts | SweepIds | EndWaiting
NodeCommand: TypeAlias = MarkersWritten | AbortTimedOut | LevelChanged
Command: TypeAlias = ClientCommand | TimerCommand | NodeCommand
# Requests that may wait until the markers of the previous transaction are written.
WaitingCommand: TypeAlias = InitProducer | AddPartitions
NeedsIdCommand: TypeAlias = InitProducer | EndTransaction | AbortTimedOut
