"""The durable state of one transactional id, and its moves: each a function from one state to the next.

A producer's *pair* is its id and epoch. Three pairs can differ: that of the transaction (`pair`, in batches
and markers), that of the client's requests (`client_pair`), and the client's pair after a decided transaction
(`pair_when_complete`). They part when epochs run out, and when a prepared transaction outlives its client
(KIP-939): the client's next run gets a pair of its own, while the transaction keeps the old one (D34).
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.groupcoord.transactions.transaction_config import EXHAUSTED_EPOCH, LAST_EPOCH, NO_TIMEOUT_MS
from ottla.groupcoord.transactions.transaction_state import AT_REST, MOVES, PREPARED, TransactionState
from ottla.logstore.words.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME_MS: Final = -1
# The protocol of a client: with 2 every end of a transaction moves its epoch (KIP-890).
CLIENT_V1: Final = 0
CLIENT_V2: Final = 2
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class ProducerPair(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int
    producer_epoch: int

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= EXHAUSTED_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of an id in the log; names and meanings are those of Kafka's TransactionLogValue."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int  # before the last move
    next_producer_id: int = NO_PRODUCER_ID  # of `pair_when_complete`, if it is another
    producer_epoch: int
    last_producer_epoch: int = (
        NO_EPOCH  # not in the log: a retry at a new coordinator is fenced (KAFKA-20357)
    )
    next_producer_epoch: int = NO_EPOCH  # only while a prepared transaction is kept for its next client
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = NO_TIME_MS
    last_update_ms: int
    client_version: int = CLIENT_V1

    @property
    def pair(self) -> ProducerPair:
        return ProducerPair(self.producer_id, self.producer_epoch)

    @property
    def is_kept(self) -> bool:
        """True for a prepared transaction that waits until its client ends it (keepPreparedTxn)."""
        return self.next_producer_epoch != NO_EPOCH

    @property
    def client_pair(self) -> ProducerPair:
        """The pair of the client's requests. `next_producer_id` alone means that epochs ran out."""
        if self.next_producer_epoch != NO_EPOCH:
            return ProducerPair(self.next_producer_id, self.next_producer_epoch)
        return ProducerPair(self.producer_id, self.producer_epoch)

    @property
    def pair_when_complete(self) -> ProducerPair:
        """The pair with which the client of a decided transaction goes on."""
        if self.next_producer_epoch != NO_EPOCH:
            return self.client_pair
        if self.next_producer_id != NO_PRODUCER_ID and self.client_version >= CLIENT_V2:
            return ProducerPair(self.next_producer_id, 0)
        return self.pair

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != NO_TIMEOUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )


def begun(transactional_id: str, producer_id: int, *, timeout_ms: int, now_ms: int) -> Transaction:
    """Return the state of a new id with its first producer."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        previous_producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
    )


def emptied(
    t: Transaction, pair: ProducerPair, *, last_epoch: int, timeout_ms: int, now_ms: int
) -> Transaction:
    """Return the state after a producer got `pair`."""
    _check_move(t, TransactionState.EMPTY)
    assert not t.is_kept, t
    return Transaction(
        transactional_id=t.transactional_id,
        producer_id=pair.producer_id,
        previous_producer_id=t.producer_id,
        producer_epoch=pair.producer_epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
        client_version=t.client_version,
    )


def with_partitions(
    t: Transaction, added: Set[TopicPartition], *, client_version: int, now_ms: int
) -> Transaction:
    """Return the state with partitions added; the first of them begin the transaction."""
    _check_move(t, TransactionState.ONGOING)
    assert not t.is_kept, t
    return Transaction(
        transactional_id=t.transactional_id,
        producer_id=t.producer_id,
        previous_producer_id=t.producer_id,
        producer_epoch=t.producer_epoch,
        last_producer_epoch=t.last_producer_epoch,
        timeout_ms=t.timeout_ms,
        state=TransactionState.ONGOING,
        partitions=t.partitions.union(added),
        start_ms=t.start_ms if t.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def kept(t: Transaction, *, next_id: int, now_ms: int) -> Transaction:
    """Return a prepared transaction that stays open for another client (KIP-939), with a pair of its own.

    May be repeated; then only the client's pair moves.
    """
    assert t.state is TransactionState.ONGOING, t
    client = _bumped(t.client_pair, next_id)
    return Transaction(
        transactional_id=t.transactional_id,
        producer_id=t.producer_id,
        previous_producer_id=t.producer_id,
        next_producer_id=client.producer_id,
        producer_epoch=t.producer_epoch,
        next_producer_epoch=client.producer_epoch,
        timeout_ms=t.timeout_ms,
        state=TransactionState.ONGOING,
        partitions=t.partitions,
        start_ms=t.start_ms,
        last_update_ms=now_ms,
        client_version=t.client_version,
    )


def needs_new_id(t: Transaction, *, client_version: int) -> bool:
    """Return True if `prepared` needs another producer id."""
    return client_version >= CLIENT_V2 and t.client_pair.is_exhausted


def fencing_needs_new_id(t: Transaction, *, level: int) -> bool:
    """Return True if `fenced` needs another producer id."""
    return (level >= CLIENT_V2 or t.is_kept) and t.client_pair.is_exhausted


def prepared(
    t: Transaction, *, committed: bool, client_version: int, next_id: int, now_ms: int
) -> Transaction:
    """Return the state after the client's commit or abort.

    With version 2 the epoch moves, so that a late request is fenced. `next_id` is for a client at the last
    epoch (`needs_new_id`).
    """
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    _check_move(t, state)
    moves_epoch = client_version >= CLIENT_V2
    return _ended(t, state, moves_epoch, t.last_producer_epoch, client_version, next_id, now_ms)


def fenced(t: Transaction, *, level: int, next_id: int, now_ms: int) -> Transaction:
    """Return the state after the coordinator's own abort, of a timed-out transaction or a replaced producer.

    Its epoch moves under any `level` of `transaction.version`, once (KAFKA-19367). Below level 2 an id that
    has no epochs left ends with 32767, and InitProducerId takes another one.
    """
    _check_move(t, TransactionState.PREPARE_EPOCH_FENCE)
    client_version = CLIENT_V2 if level >= CLIENT_V2 else CLIENT_V1
    return _ended(t, TransactionState.PREPARE_ABORT, True, NO_EPOCH, client_version, next_id, now_ms)


def completed(t: Transaction, *, now_ms: int) -> Transaction:
    """Return the state after every partition got its marker."""
    state = {
        TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
        TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
    }[t.state]
    _check_move(t, state)
    pair = t.pair_when_complete
    return Transaction(
        transactional_id=t.transactional_id,
        producer_id=pair.producer_id,
        # It identifies the retry of a client whose epochs ran out; a kept transaction noted it before.
        previous_producer_id=t.previous_producer_id if t.is_kept else t.producer_id,
        producer_epoch=pair.producer_epoch,
        last_producer_epoch=t.last_producer_epoch,
        timeout_ms=t.timeout_ms,
        state=state,
        start_ms=t.start_ms,
        last_update_ms=now_ms,
        client_version=t.client_version,
    )


def check_transaction(t: Transaction) -> None:
    """Assert what holds of a transaction in any of its states."""
    state = t.state
    assert t.producer_id >= 0 and 0 <= t.producer_epoch <= LAST_EPOCH, t
    assert state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE), t
    if state in AT_REST:
        assert not t.partitions and not t.is_kept and t.next_producer_id == NO_PRODUCER_ID, t
    assert (state is TransactionState.EMPTY) == (t.start_ms == NO_TIME_MS), t
    if t.is_kept:
        assert t.next_producer_id >= 0 and 0 <= t.next_producer_epoch <= EXHAUSTED_EPOCH, t
    elif t.next_producer_id != NO_PRODUCER_ID:
        assert state in PREPARED and t.producer_epoch == LAST_EPOCH, t


# ---- parts of moves ----------------------------------------------------------------------------------------


def _ended(
    t: Transaction,
    state: TransactionState,
    moves_epoch: bool,
    last_epoch: int,
    client_version: int,
    next_id: int,
    now_ms: int,
) -> Transaction:
    client = t.client_pair
    epoch, previous_id = t.producer_epoch, t.producer_id
    next_epoch = t.next_producer_epoch
    if moves_epoch:
        epoch = min(epoch + 1, LAST_EPOCH)  # KAFKA-20090: a transaction with the last epoch can be ended
        if client_version >= CLIENT_V2:
            last_epoch = client.producer_epoch
    if not t.is_kept:
        assert (next_id != NO_PRODUCER_ID) == (client_version >= CLIENT_V2 and client.is_exhausted), t
    elif moves_epoch:
        previous_id = client.producer_id
        next_id, next_epoch = _bumped(client, next_id)
    else:
        next_id = client.producer_id
    return Transaction(
        transactional_id=t.transactional_id,
        producer_id=t.producer_id,
        previous_producer_id=previous_id,
        next_producer_id=next_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_epoch=next_epoch,
        timeout_ms=t.timeout_ms,
        state=state,
        partitions=t.partitions,
        start_ms=t.start_ms if t.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def _bumped(pair: ProducerPair, next_id: int) -> ProducerPair:
    if pair.is_exhausted:
        assert next_id >= 0, pair
        return ProducerPair(next_id, 0)
    return ProducerPair(pair.producer_id, pair.producer_epoch + 1)


def _check_move(t: Transaction, to: TransactionState) -> None:
    assert to in MOVES[t.state], f"{t.transactional_id} may not go from {t.state.value} to {to.value}"
