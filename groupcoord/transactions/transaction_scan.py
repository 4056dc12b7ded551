"""Scans the log of a shard for the last state of each id.

An id writes three records for each transaction and only the last one counts, so values are decoded after all
is read. A thread scans, and decodes, before the shard is used.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.groupcoord.log_scan import PAUSE_RECORDS, LogBatch, Pauses, Unreadable, feed_batches, iterate_keys
from ottla.groupcoord.transactions.transaction import Transaction
from ottla.groupcoord.transactions.transaction_records import (
    TRANSACTIONS_TOPIC,
    TransactionRecord,
    decode_key,
    decode_value,
)
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.record_batch import CONTROL_BIT
from ottla.logstore.words.errors import ErrorCode, KafkaError

# Ids between two calls of `pause` while they are decoded, which takes longer.
PAUSE_IDS: Final = 200


class ScannedTransactions(NamedTuple):
    """The content of a log."""

    transactions: dict[str, Transaction]
    unreadable: Unreadable


class TransactionScan:
    """A scan of a log of transactions: `feed` it the log from its start, then `finish`."""

    def __init__(self, pause: Callable[[], None] = lambda: None) -> None:
        self._pauses = Pauses(pause)
        self._unreadable = Unreadable()
        self._values: dict[bytes, bytes] = {}

    def feed(self, content: bytes) -> int:
        """Take the whole batches at the start of `content`, as `LogScan` says."""
        return feed_batches(content, self._take_batch, self._pauses)

    def _take_batch(self, content: bytes, batch: LogBatch) -> None:
        if batch.attributes & CONTROL_BIT:
            return
        values = self._values
        for key, value in iterate_keys(content, batch, self._pauses.pause):
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value

    def finish(self) -> ScannedTransactions:
        """Return the content of the log, decoded; the scan cannot be used after that."""
        transactions: dict[str, Transaction] = {}
        for count, (key, value) in enumerate(self._values.items(), 1):
            try:
                transactional_id = decode_key(key)
                if transactional_id is not None:
                    t = decode_value(transactional_id, value)
                    if t is None:
                        version = int.from_bytes(value[:2])
                        detail = f"A record of {TRANSACTIONS_TOPIC} has the unknown version {version}."
                        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)
                    transactions[transactional_id] = t
            except KafkaError as error:
                self._unreadable.add(error.detail)
            if count % PAUSE_IDS == 0:
                self._pauses.pause()
        self._values = {}
        return ScannedTransactions(transactions, self._unreadable)


def load_shard(
    scanned: ScannedTransactions, shard: TransactionShard, *, pause: Callable[[], None] = lambda: None
) -> TransactionShard:
    """Return the empty `shard`, filled; the order of ids does not matter."""
    for count, (transactional_id, t) in enumerate(scanned.transactions.items(), 1):
        shard.replay(TransactionRecord(transactional_id, t))
        if count % PAUSE_RECORDS == 0:
            pause()
    return shard
