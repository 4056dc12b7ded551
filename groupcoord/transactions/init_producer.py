"""InitProducerId: a producer begins, goes on after an error, or replaces another one."""

from ottla.groupcoord.transactions.coordinator_abort import aborted_by_coordinator
from ottla.groupcoord.transactions.marker_progress import decide_end
from ottla.groupcoord.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerPair,
    Transaction,
    begun,
    emptied,
    kept,
)
from ottla.groupcoord.transactions.transaction_commands import InitProducer
from ottla.groupcoord.transactions.transaction_config import (
    LAST_EPOCH,
    MAX_IDS_PER_SHARD,
    MAX_NEW_ID_BYTES,
    NO_TIMEOUT_MS,
)
from ottla.groupcoord.transactions.transaction_effects import Append, Effect, NeedProducerId, Reply
from ottla.groupcoord.transactions.transaction_lookup import check_id, fenced_producer
from ottla.groupcoord.transactions.transaction_records import TransactionRecord
from ottla.groupcoord.transactions.transaction_results import InitProducerResult
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.groupcoord.transactions.transaction_state import PREPARED, TransactionState
from ottla.groupcoord.transactions.waiting_requests import refuse_concurrent, wait_or_refuse
from ottla.logstore.words.errors import ErrorCode, KafkaError


def init_producer(
    shard: TransactionShard, command: InitProducer, now_ms: int, *, may_wait: bool
) -> list[Effect]:
    """Give the producer a pair, once no transaction of another one is open, in Kafka's order of checks."""
    timeout_ms = _checked_timeout_ms(shard, command)
    t = shard.transactions.get(command.transactional_id)
    if t is None:
        return _begin(shard, command, timeout_ms, now_ms)
    if t.state in PREPARED:
        return wait_or_refuse(shard, command, may_wait=may_wait)
    expected, pair = command.expected, t.client_pair
    # The previous id with its last epoch: a client that did not get the answer with its new id asks again.
    is_overflow = (
        expected is not None
        and expected.producer_id == t.previous_producer_id
        and expected.is_exhausted
        and pair.producer_epoch == 0
    )
    if expected is not None and expected.producer_id != pair.producer_id and not is_overflow:
        raise fenced_producer(expected, pair)
    if t.state is TransactionState.ONGOING:
        if expected is not None and expected != pair:
            # Kafka looks at the id alone here, and aborts the transaction of the producer that the check
            # should protect (D39).
            raise fenced_producer(expected, pair)
        if command.keep_prepared:
            return _keep(t, command, now_ms)
        return _take_over(shard, t, command, now_ms, may_wait=may_wait)
    return _next_pair(t, command, timeout_ms, now_ms)


def _checked_timeout_ms(shard: TransactionShard, command: InitProducer) -> int:
    config = shard.config
    check_id(command.transactional_id)
    if command.enable_2pc and not config.transaction_two_phase_commit_enable:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transaction.two.phase.commit.enable is false on the broker",
        )
    if command.keep_prepared and shard.level < 1:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "keepPreparedTxn needs transaction.version 1 or higher"
        )
    if command.enable_2pc:
        return NO_TIMEOUT_MS
    if not 0 < command.timeout_ms <= config.transaction_max_timeout_ms:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"a transaction timeout of {command.timeout_ms} ms is not allowed: it "
            "must be from 1 ms to transaction.max.timeout.ms",
        )
    return command.timeout_ms


def _begin(shard: TransactionShard, command: InitProducer, timeout_ms: int, now_ms: int) -> list[Effect]:
    size_bytes = len(command.transactional_id.encode())
    if size_bytes > MAX_NEW_ID_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the transactional id has {size_bytes} bytes, but at most {MAX_NEW_ID_BYTES} are allowed",
        )
    if command.fresh_id is None:
        return [NeedProducerId(command)]
    if len(shard.transactions) >= MAX_IDS_PER_SHARD:
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"there are already {MAX_IDS_PER_SHARD} transactional ids in this partition of "
            "__transaction_state: use fewer ids, or lower transactional.id.expiration.ms",
        )
    if not shard.has_room():
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "transactional ids use all the memory that the broker reserves for them: raise its "
            "ottla.memory.max.bytes, or lower transactional.id.expiration.ms",
        )
    t = begun(command.transactional_id, command.fresh_id, timeout_ms=timeout_ms, now_ms=now_ms)
    return _answered(command, t, None)


def _keep(t: Transaction, command: InitProducer, now_ms: int) -> list[Effect]:
    """Keep the transaction open under its own pair; the client will end it under the next one (KIP-939)."""
    is_exhausted = t.client_pair.is_exhausted
    if is_exhausted and command.fresh_id is None:
        return [NeedProducerId(command)]
    next_id = command.fresh_id if is_exhausted and command.fresh_id is not None else NO_PRODUCER_ID
    return _answered(command, kept(t, next_id=next_id, now_ms=now_ms), t.pair)


def _take_over(
    shard: TransactionShard, t: Transaction, command: InitProducer, now_ms: int, *, may_wait: bool
) -> list[Effect]:
    """Abort the transaction that the previous producer left open; the new one gets its pair after that."""
    aborted = aborted_by_coordinator(shard, t, command.fresh_id, now_ms)
    if aborted is None:
        return [NeedProducerId(command)]
    effects = decide_end(shard, aborted, now_ms)
    if not aborted.partitions:
        return [*effects, refuse_concurrent(command.token)]  # nothing to wait for
    return effects + wait_or_refuse(shard, command, may_wait=may_wait)


def _next_pair(t: Transaction, command: InitProducer, timeout_ms: int, now_ms: int) -> list[Effect]:
    """Give the next epoch, or the first one of another id.

    A client that missed the answer gets the same pair again.
    """
    expected, pair = command.expected, t.pair
    is_current = expected is not None and expected.producer_epoch == pair.producer_epoch
    last_epoch = pair.producer_epoch if is_current else NO_EPOCH
    if pair.is_exhausted and (expected is None or is_current):
        if command.fresh_id is None:
            return [NeedProducerId(command)]
        following = ProducerPair(command.fresh_id, 0)
    elif expected is None or is_current:
        following = ProducerPair(pair.producer_id, pair.producer_epoch + 1)
    elif expected.producer_epoch == t.last_producer_epoch and pair.producer_epoch < LAST_EPOCH:
        following, last_epoch = pair, t.last_producer_epoch
    else:
        raise fenced_producer(expected, pair)
    t = emptied(t, following, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)
    return _answered(command, t, None)


def _answered(command: InitProducer, t: Transaction, ongoing: ProducerPair | None) -> list[Effect]:
    record = TransactionRecord(t.transactional_id, t)
    return [Append((record,)), Reply(command.token, InitProducerResult(t.client_pair, ongoing))]
