"""The results of commands of the transaction coordinator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition


class InitProducerResult(NamedTuple):
    """The producer's pair; with keepPreparedTxn also that of the transaction that is still open."""

    producer: ProducerPair
    ongoing: ProducerPair | None = None


class AddPartitionsResult(NamedTuple):
    """The result if all partitions are in the transaction."""


class VerifyPartitionsResult(NamedTuple):
    errors: Mapping[TopicPartition, ErrorCode]


class EndTransactionResult(NamedTuple):
    """The pair with which the producer goes on; unchanged for clients that do not move epochs."""

    producer: ProducerPair


class ListedTransaction(NamedTuple):
    """One transaction of a list, perhaps a very long one."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResult:
    transactions: Sequence[ListedTransaction]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """A transactional id; with an `error` the other fields have no meaning."""

    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Mapping[str, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResult:
    transactions: Sequence[DescribedTransaction]


Result: TypeAlias = (
    InitProducerResult
    | AddPartitionsResult
    | VerifyPartitionsResult
    | EndTransactionResult
    | ListTransactionsResult
    | DescribeTransactionsResult
)
