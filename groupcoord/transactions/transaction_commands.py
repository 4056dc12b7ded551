"""What a shard of the transaction coordinator can be asked.

A command with a `token` comes from a client or a broker: every token is answered exactly once. Versions of
the protocol end at the request handlers: `client_version` says whether the client's epoch moves with every
end of a transaction (KIP-890), `may_wait` whether the answer may take a moment. Where a decision needs a new
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
    """InitProducerId with a transactional id; `expected` is the pair that the client believes it has."""

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
    """AddPartitionsToTxn and AddOffsetsToTxn, of one transaction."""

    token: Token
    transactional_id: str
    producer: ProducerPair
    partitions: Set[TopicPartition]
    client_version: int
    may_wait: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """A leader asks before the first append of a transaction: are its partitions in it?"""

    token: Token
    transactional_id: str
    producer: ProducerPair
    partitions: Set[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """EndTxn. `connection_number` says which of two connections of this node was accepted later."""

    token: Token
    transactional_id: str
    producer: ProducerPair
    committed: bool
    client_version: int
    connection_number: int
    fresh_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """Nothing in a filter lets all pass; `longer_than_ms` below 0 is no filter."""

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
    """These partitions have the marker of the transaction, or are gone."""

    transactional_id: str
    producer_id: int
    marker_epoch: int
    partitions: Set[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTimedOut:
    """The time of this very transaction was over when somebody looked."""

    transactional_id: str
    producer: ProducerPair
    fresh_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTimeouts:
    """Timer: which transactions are open for too long?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepIds:
    """Timer: which ids has nobody used for too long?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWaiting:
    """Timer: the requests that wait for this id's markers have waited for long enough."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChanged:
    """The finalized level of `transaction.version`."""

    level: int


ClientCommand: TypeAlias = (
    InitProducer | AddPartitions | VerifyPartitions | EndTransaction | ListTransactions | DescribeTransactions
)
# What leads to no records, and is carried out while the log takes none.
ReadOnlyCommand: TypeAlias = (
    VerifyPartitions | ListTransactions | DescribeTransactions | EndWaiting | LevelChanged
)
TimerCommand: TypeAlias = SweepTimeouts | SweepIds | EndWaiting
NodeCommand: TypeAlias = MarkersWritten | AbortTimedOut | LevelChanged
Command: TypeAlias = ClientCommand | TimerCommand | NodeCommand
WaitingCommand: TypeAlias = InitProducer | AddPartitions
"""Of these a client may be kept waiting until the markers of the transaction before are written."""
NeedsIdCommand: TypeAlias = InitProducer | EndTransaction | AbortTimedOut
