"""The log of a shard, scanned down to the last state of each id.

An id writes three records a transaction and only the last one counts, so bytes are looked at, not decoded,
until all is read: one `Struct` reads a batch's header, the varints of a record are read where they stand.
What is of an unusual shape goes through the generic reader, which judges it. The scan is pure and shares
nothing: a thread does it, and has decoded all that is left before the shard is taken over.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from groupcoord.transactions.transaction import Transaction
from groupcoord.transactions.transaction_records import (
    TRANSACTIONS_TOPIC,
    TransactionRecord,
    decode_key,
    decode_value,
)
from groupcoord.transactions.transaction_shard import Shard
from logstore.errors import ErrorCode, KafkaError
from logstore.record import iterate_records
from logstore.record_batch import COMPRESSION_MASK, CONTROL_BIT, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC

# Records between two calls of `pause`: a millisecond or two, so that a thread lets the event loop in.
PAUSE_RECORDS: Final = 1_000
# Ids between two calls while they are decoded, which takes longer.
PAUSE_IDS: Final = 200
# Records that are not readable are told one by one up to here; a log full of them must not fill the memory.
MAX_UNREADABLE: Final = 100


class ScannedTransactions(NamedTuple):
    """What is left of a log. `unreadable_count` ids were left out; the reasons of the first are told."""

    transactions: dict[str, Transaction]
    unreadable_count: int
    unreadable: list[str]


class TransactionScan:
    """Feed it the log from its start, then `finish`.

    `pause` is called every few milliseconds; what it raises ends the scan.
    """

    def __init__(self, pause: Callable[[], None] = lambda: None) -> None:
        self._pause = pause
        self._values: dict[bytes, bytes] = {}
        self._records_since_pause = 0

    def feed(self, content: bytes) -> int:
        """Take the whole batches at the start of `content`; the offset after the last one, -1 if there is
        none.

        Half a batch at the end is left for the next piece. KafkaError (CORRUPT_MESSAGE, INVALID_RECORD) for
        bytes that are no log.
        """
        position, size, next_offset = 0, len(content), -1
        while size - position >= HEADER_SIZE:
            (base_offset, length, _, magic, _, attributes, last_delta, _, _, _, _, _, count) = (
                HEADER.unpack_from(content, position)
            )
            end = position + LOG_OVERHEAD + length
            if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC or last_delta < 0:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"A batch of format {magic} says that {length} bytes and {last_delta} offsets follow.",
                )
            if end > size:
                break
            if not attributes & CONTROL_BIT and (
                attributes & COMPRESSION_MASK
                or not self._add_records(content, position + HEADER_SIZE, end, count)
            ):
                # Perhaps once more from the first record: what was taken already is only taken again.
                for record in iterate_records(memoryview(content)[position:end]):
                    if record.key is not None:
                        value = None if record.value is None else bytes(record.value)
                        self._add(bytes(record.key), value)
            position, next_offset = end, base_offset + last_delta + 1
            self._records_since_pause += count
            if self._records_since_pause >= PAUSE_RECORDS:
                self._records_since_pause = 0
                self._pause()
        return next_offset

    def _add_records(self, content: bytes, position: int, batch_end: int, count: int) -> bool:
        """Take `count` records of the usual shape: lengths of one or two bytes, a key, no headers.

        False at the first that looks otherwise, or does not fill exactly the place that it claims;
        `iterate_records` then tells a strange record from bytes that are none.
        """
        values = self._values
        try:
            for _ in range(count):
                length = content[position]
                position += 1
                if length >= 0x80:
                    more = content[position]
                    position += 1
                    length += (more << 7) - 0x80
                    if more >= 0x80:
                        return False
                end = position + (length >> 1)
                position += 1  # attributes
                while content[position] >= 0x80:  # timestamp delta
                    position += 1
                position += 1
                while content[position] >= 0x80:  # offset delta
                    position += 1
                position += 1
                key_length = content[position]
                position += 1
                if key_length >= 0x80:
                    more = content[position]
                    position += 1
                    key_length += (more << 7) - 0x80
                    if more >= 0x80:
                        return False
                key_start, position = position, position + (key_length >> 1)
                key_end = value_start = position
                value_length = content[position]
                position += 1
                if value_length != 1:  # -1, for null
                    if value_length >= 0x80:
                        more = content[position]
                        position += 1
                        value_length += (more << 7) - 0x80
                        if more >= 0x80:
                            return False
                    value_start, position = position, position + (value_length >> 1)
                # An odd length is a negative one. A header count of 0 is the record's last byte.
                if (
                    (length | key_length) & 1
                    or (value_length & 1 and value_length != 1)
                    or position + 1 != end
                    or end > batch_end
                    or content[position]
                ):
                    return False
                if value_length == 1:
                    values.pop(content[key_start:key_end], None)
                else:
                    values[content[key_start:key_end]] = content[value_start:position]
                position = end
        except IndexError:
            return False
        return position == batch_end

    def _add(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def finish(self) -> ScannedTransactions:
        """What is left, decoded; the scan is used no more."""
        transactions: dict[str, Transaction] = {}
        unreadable: list[str] = []
        unreadable_count = 0
        for count, (key, value) in enumerate(self._values.items(), 1):
            try:
                transactional_id = decode_key(key)
                if transactional_id is not None:
                    t = decode_value(transactional_id, value)
                    if t is None:
                        version = int.from_bytes(value[:2])
                        what = f"A record of {TRANSACTIONS_TOPIC} has version {version}, which is not known."
                        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, what)
                    transactions[transactional_id] = t
            except KafkaError as error:
                unreadable_count += 1
                if len(unreadable) < MAX_UNREADABLE:
                    unreadable.append(error.detail)
            if count % PAUSE_IDS == 0:
                self._pause()
        self._values = {}
        return ScannedTransactions(transactions, unreadable_count, unreadable)


def load_shard(
    scanned: ScannedTransactions, shard: Shard, *, pause: Callable[[], None] = lambda: None
) -> Shard:
    """The empty `shard`, filled; the order of ids means nothing."""
    for count, (transactional_id, t) in enumerate(scanned.transactions.items(), 1):
        shard.replay(TransactionRecord(transactional_id, t))
        if count % PAUSE_RECORDS == 0:
            pause()
    return shard
