"""ListTransactions and DescribeTransactions."""

from ottla.groupcoord.transactions.transaction_commands import DescribeTransactions, ListTransactions
from ottla.groupcoord.transactions.transaction_effects import Effect, Reply
from ottla.groupcoord.transactions.transaction_results import (
    DescribedTransaction,
    DescribeTransactionsResult,
    ListedTransaction,
    ListTransactionsResult,
)
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.words.errors import ErrorCode


def list_transactions(shard: TransactionShard, command: ListTransactions, now_ms: int) -> list[Effect]:
    """List the ids that pass all filters.

    An id without a transaction began in 1969, as Kafka counts, so it is older than any duration.
    """
    found = []
    for t in shard.transactions.values():
        if (
            (command.producer_ids and t.producer_id not in command.producer_ids)
            or (command.states and t.state.value not in command.states)
            or (command.longer_than_ms >= 0 and now_ms - t.start_ms <= command.longer_than_ms)
        ):
            continue
        found.append(ListedTransaction(t.transactional_id, t.producer_id, t.state.value))
    return [Reply(command.token, ListTransactionsResult(transactions=found), shows_state=True)]


def describe_transactions(shard: TransactionShard, command: DescribeTransactions) -> list[Effect]:
    described = [_describe(shard, each) for each in command.transactional_ids]
    return [Reply(command.token, DescribeTransactionsResult(transactions=described), shows_state=True)]


def _describe(shard: TransactionShard, transactional_id: str) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(transactional_id=transactional_id, error=ErrorCode.INVALID_REQUEST)
    t = shard.transactions.get(transactional_id)
    if t is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return DescribedTransaction(transactional_id=transactional_id, error=error)
    # Of a decided transaction the partitions that have no marker yet, as Kafka shows it.
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(shard.markers_left.get(transactional_id, t.partitions)):
        topics.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        transactional_id=transactional_id,
        state=t.state.value,
        timeout_ms=t.timeout_ms,
        start_ms=t.start_ms,
        producer_id=t.producer_id,
        producer_epoch=t.producer_epoch,
        topics=topics,
    )
