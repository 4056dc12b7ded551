"""AddPartitionsToTxn and AddOffsetsToTxn; and leaders' requests to verify that partitions were added."""

from ottla.groupcoord.transactions.transaction import Transaction, with_partitions
from ottla.groupcoord.transactions.transaction_commands import AddPartitions, VerifyPartitions
from ottla.groupcoord.transactions.transaction_effects import Append, Effect, Reply
from ottla.groupcoord.transactions.transaction_lookup import check_pair, existing_transaction
from ottla.groupcoord.transactions.transaction_records import TransactionRecord, encode_key, value_size_bytes
from ottla.groupcoord.transactions.transaction_results import AddPartitionsResult, VerifyPartitionsResult
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.groupcoord.transactions.transaction_state import PREPARED, TransactionState
from ottla.groupcoord.transactions.waiting_requests import refuse_concurrent, wait_or_refuse
from ottla.logstore.words.errors import ErrorCode, KafkaError

# A record with fewer partitions fits without measuring: a topic's name has 249 characters at most.
_SURELY_FITTING_PARTITIONS = 1_000
_BATCH_OVERHEAD_BYTES = 128


def add_partitions(
    shard: TransactionShard, command: AddPartitions, now_ms: int, *, may_wait: bool
) -> list[Effect]:
    """Add partitions to the transaction, which begins with the first of them."""
    t = existing_transaction(shard, command.transactional_id)
    if t.state in PREPARED:
        # Also for another producer: Kafka, too, answers this before it looks at the pair, which the end will
        # change.
        return wait_or_refuse(shard, command, may_wait=may_wait)
    check_pair(command.producer, t.client_pair)
    if t.is_kept:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, "the transaction is prepared: it can only be committed or aborted"
        )
    if t.state is TransactionState.ONGOING and command.partitions <= t.partitions:
        return [Reply(command.token, AddPartitionsResult(), shows_state=True)]
    t = with_partitions(t, command.partitions, client_version=command.client_version, now_ms=now_ms)
    _check_size(shard, t)
    record = TransactionRecord(command.transactional_id, t)
    return [Append((record,)), Reply(command.token, AddPartitionsResult())]


def verify_partitions(shard: TransactionShard, command: VerifyPartitions) -> list[Effect]:
    """Answer a leader that is about to append to partitions of a transaction for the first time.

    NONE for partitions that are in the transaction, TRANSACTION_ABORTABLE for others.
    """
    t = existing_transaction(shard, command.transactional_id)
    check_pair(command.producer, t.pair)
    if t.state in PREPARED:
        return [refuse_concurrent(command.token)]
    errors = {
        each: ErrorCode.NONE if each in t.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in command.partitions
    }
    return [Reply(command.token, VerifyPartitionsResult(errors), shows_state=True)]


def _check_size(shard: TransactionShard, t: Transaction) -> None:
    """Raise UNKNOWN_SERVER_ERROR for a record that no batch can take, as Kafka's append does."""
    if len(t.partitions) < _SURELY_FITTING_PARTITIONS:
        return
    size = _BATCH_OVERHEAD_BYTES + len(encode_key(t.transactional_id)) + value_size_bytes(t)
    if size > shard.config.max_batch_bytes:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(t.partitions)} partitions are too many for one transaction"
        )
