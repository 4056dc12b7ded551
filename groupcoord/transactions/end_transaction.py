"""EndTxn: commit or abort, of clients of both protocols.

Version 1 leaves the epoch as it is, so a late copy of a request looks like a new request (KAFKA-17754). Part
of these copies can be recognized without the client's help: a copy comes over a connection that its client
has since given up for another one. So a request over an older connection than the last that ended a
transaction in this epoch is not answered; its connection is closed (D38). Version 2 (KIP-890) moves the epoch
with each end.
"""

from ottla.groupcoord.transactions.marker_progress import decide_end
from ottla.groupcoord.transactions.transaction import (
    CLIENT_V1,
    CLIENT_V2,
    NO_PRODUCER_ID,
    Transaction,
    needs_new_id,
    prepared,
)
from ottla.groupcoord.transactions.transaction_commands import EndTransaction
from ottla.groupcoord.transactions.transaction_config import EXHAUSTED_EPOCH
from ottla.groupcoord.transactions.transaction_effects import (
    Append,
    CloseWithoutResponse,
    Effect,
    NeedProducerId,
    Refuse,
    Reply,
)
from ottla.groupcoord.transactions.transaction_lookup import (
    check_pair,
    existing_transaction,
    fenced_producer,
    other_producer,
)
from ottla.groupcoord.transactions.transaction_records import TransactionRecord
from ottla.groupcoord.transactions.transaction_results import EndTransactionResult
from ottla.groupcoord.transactions.transaction_shard import EndedBy, TransactionShard
from ottla.groupcoord.transactions.transaction_state import PREPARED, TransactionState
from ottla.groupcoord.transactions.waiting_requests import refuse_concurrent
from ottla.logstore.words.errors import ErrorCode, KafkaError


def end_transaction(shard: TransactionShard, command: EndTransaction, now_ms: int) -> list[Effect]:
    """Decide an EndTxn: the client commits or aborts its transaction."""
    t = existing_transaction(shard, command.transactional_id)
    if command.client_version >= CLIENT_V2:
        return _end_moving_the_epoch(shard, t, command, now_ms)
    return _end_in_the_same_epoch(shard, t, command, now_ms)


def _end_in_the_same_epoch(
    shard: TransactionShard, t: Transaction, command: EndTransaction, now_ms: int
) -> list[Effect]:
    pair = t.client_pair
    check_pair(command.producer, pair)
    before = shard.ended_by.get(t.transactional_id)
    if before is not None and before[:2] == pair and command.connection_number < before.connection_number:
        return [CloseWithoutResponse(command.token)]
    # Also for a client that only gets the answer again: it goes on from this connection.
    shard.ended_by[t.transactional_id] = EndedBy(*pair, command.connection_number)
    if t.state in PREPARED:
        return [refuse_concurrent(command.token)]
    if t.state is TransactionState.ONGOING:
        return _decided(shard, t, command, now_ms)
    if t.state is _result_of(command):
        return [_repeated_response(t, command)]
    raise _nothing_to_end(t, command)


def _end_moving_the_epoch(
    shard: TransactionShard, t: Transaction, command: EndTransaction, now_ms: int
) -> list[Effect]:
    """End the open transaction, or recognize by the epoch a retry for the previous one."""
    if t.state in PREPARED:
        return [refuse_concurrent(command.token)]  # to any client, as in Kafka: the pair is about to change
    requested, pair = command.producer, t.client_pair
    is_retry = pair.producer_epoch == requested.producer_epoch + 1
    is_overflow = (
        requested.producer_id == t.previous_producer_id
        and requested.producer_epoch == EXHAUSTED_EPOCH
        and pair.producer_epoch == 0
    )
    if requested.producer_id != pair.producer_id and not is_overflow:
        raise other_producer(requested, pair)
    # The last end must have moved the epoch; otherwise a client one epoch behind was replaced by one of the
    # old protocol.
    can_be_retry = t.client_version >= CLIENT_V2 and t.state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    if can_be_retry and (is_retry or is_overflow):
        if t.state is _result_of(command):
            return [_repeated_response(t, command)]
        if command.committed:
            # The coordinator aborted it while the commit was on its way. INVALID_TXN_STATE, as in Kafka, ends
            # the application; a fenced producer begins again (KAFKA-20785, D40).
            raise fenced_producer(requested, pair)
        raise _nothing_to_end(t, command)
    if requested.producer_epoch != pair.producer_epoch:
        raise fenced_producer(requested, pair)
    if t.state is not TransactionState.ONGOING and command.committed:
        # Partition leaders begin transactions, perhaps at the coordinator that follows this one, and this
        # answer ends the application: it leaves once the state, written again, proves that this node
        # coordinates (D45).
        error = _nothing_to_end(t, command)
        return [
            Append((TransactionRecord(t.transactional_id, t),)),
            Refuse(command.token, error.code, error.detail),
        ]
    return _decided(shard, t, command, now_ms)


def _decided(shard: TransactionShard, t: Transaction, command: EndTransaction, now_ms: int) -> list[Effect]:
    version = CLIENT_V2 if command.client_version >= CLIENT_V2 else CLIENT_V1
    next_id = NO_PRODUCER_ID
    if needs_new_id(t, client_version=version):
        if command.fresh_id is None:
            return [NeedProducerId(command)]
        next_id = command.fresh_id
    decided = prepared(t, committed=command.committed, client_version=version, next_id=next_id, now_ms=now_ms)
    effects = decide_end(shard, decided, now_ms)
    # After the record and before the markers: whichever the node sends first, both wait for the record.
    effects.insert(1, Reply(command.token, EndTransactionResult(decided.pair_when_complete)))
    return effects


def _repeated_response(t: Transaction, command: EndTransaction) -> Reply[EndTransactionResult]:
    return Reply(command.token, EndTransactionResult(t.client_pair), shows_state=True)


def _result_of(command: EndTransaction) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if command.committed else TransactionState.COMPLETE_ABORT


def _nothing_to_end(t: Transaction, command: EndTransaction) -> KafkaError:
    verb = "commit" if command.committed else "abort"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"the transaction is in state {t.state.value}, so there is nothing to {verb}",
    )
