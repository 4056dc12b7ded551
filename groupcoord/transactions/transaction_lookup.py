"""The first checks of every request about a transaction."""

from ottla.groupcoord.transactions.transaction import ProducerPair, Transaction
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.words.errors import ErrorCode, KafkaError


def check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")


def existing_transaction(shard: TransactionShard, transactional_id: str) -> Transaction:
    """Return the state of an id; INVALID_PRODUCER_ID_MAPPING if it does not exist."""
    check_id(transactional_id)
    t = shard.transactions.get(transactional_id)
    if t is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id does not exist")
    return t


def check_pair(requested: ProducerPair, current: ProducerPair) -> None:
    """Raise INVALID_PRODUCER_ID_MAPPING for another producer, PRODUCER_FENCED for another epoch."""
    if requested.producer_id != current.producer_id:
        raise other_producer(requested, current)
    if requested.producer_epoch != current.producer_epoch:
        raise fenced_producer(requested, current)


def other_producer(requested: ProducerPair, current: ProducerPair) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"the producer id is {current.producer_id}, not {requested.producer_id}",
    )


def fenced_producer(requested: ProducerPair, current: ProducerPair) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"the epoch of producer {requested.producer_id} is {current.producer_epoch}, "
        f"not {requested.producer_epoch}",
    )
