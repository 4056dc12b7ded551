"""Reads the log of a shard batch by batch and record by record, without decoding values that may not count.

Only the last record of a key counts, so a load looks at keys and values alone: one `Struct` reads the header
of a batch, and the varints of a record are read in place. This gives half a million records a second on one
core, which the generic reader of records cannot reach; it reads, and judges, only records of an unusual
shape. All of it is pure and shares nothing, so a thread can do it.
"""

from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol

from ottla.logstore.opened_records import OpenedRecords
from ottla.logstore.record import Record, iterate_records
from ottla.logstore.record_batch import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    compression_of,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError

# Records between two calls of `pause`: a millisecond or two, so that a thread lets the event loop run.
PAUSE_RECORDS: Final = 1_000
# Unreadable records are described one by one up to this number; a log full of them must not fill the memory.
MAX_UNREADABLE: Final = 100


class Unreadable:
    """The records that were left out because they could not be read, for the log of the node."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []  # at most MAX_UNREADABLE

    def add(self, detail: str) -> None:
        self.count += 1
        if len(self.first) < MAX_UNREADABLE:
            self.first.append(detail)


class LogBatch(NamedTuple):
    """A whole batch within the bytes that were fed, with the fields of its header."""

    start: int
    end: int
    next_offset: int  # the offset after its last record
    attributes: int
    producer_id: int
    records: int
    base_offset: int


class LogScan(Protocol):
    """A scan that is fed the log from its start."""

    def feed(self, content: bytes, /) -> int:
        """Take the whole batches at the start of `content`; return the offset after them, or -1 for none.

        Half a batch at the end is left for the next piece. KafkaError (CORRUPT_MESSAGE, INVALID_RECORD) for
        bytes that are not a log.
        """
        ...


class Pauses:
    """A counter that calls `pause` about once every `PAUSE_RECORDS`; an exception of it ends the scan."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self.pause = pause
        self._records = 0

    def count(self, records: int) -> None:
        """Count records that were read."""
        self._records += records
        if self._records >= PAUSE_RECORDS:
            self._records = 0
            self.pause()


def feed_batches(content: bytes, take_batch: Callable[[bytes, LogBatch], None], pauses: Pauses) -> int:
    """Pass each whole batch at the start of `content`, of any kind, to `take_batch` in the order of the log.

    Return the offset after the last one, or -1 if there is none.
    """
    next_offset = -1
    for batch in iterate_batches(content):
        take_batch(content, batch)
        next_offset = batch.next_offset
        pauses.count(batch.records)
    return next_offset


def iterate_batches(content: bytes) -> Iterator[LogBatch]:
    """Yield the whole batches at the start of `content`; KafkaError (CORRUPT_MESSAGE) for other bytes."""
    start, size = 0, len(content)
    while size - start >= HEADER_SIZE:
        (base_offset, length, _, magic, _, attributes, last_delta, _, _, producer_id, _, _, count) = (
            HEADER.unpack_from(content, start)
        )
        end = start + LOG_OVERHEAD + length
        if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC or last_delta < 0:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"The header of a batch of format {magic} is not valid: it gives a "
                f"length of {length} bytes and a last offset delta of {last_delta}.",
            )
        if end > size:
            return
        yield LogBatch(start, end, base_offset + last_delta + 1, attributes, producer_id, count, base_offset)
        start = end


def iterate_keys(
    content: bytes, batch: LogBatch, pause: Callable[[], None] = lambda: None
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield key and value of each record of `batch` that has a key, in the order of the log.

    Compressed records are opened a piece at a time. `pause` is called every `PAUSE_RECORDS` of a batch; an
    exception of it ends the reading. If a record has an unusual shape, the batch is read again by
    `iterate_records`, which tells an unusual record from bytes that are no record (KafkaError).
    """
    if batch.attributes & COMPRESSION_MASK:
        body = memoryview(content)[batch.start + HEADER_SIZE : batch.end]
        opened = OpenedRecords(compression_of(batch.attributes), body, pause=pause)
        index, is_done = yield from _opened_keys(opened, batch.records, pause)
    else:
        start = batch.start + HEADER_SIZE
        index, end = yield from _usual_keys(content, start, batch.end, 0, batch.records, pause)
        is_done = (index, end) == (batch.records, batch.end)
    if not is_done:
        whole = memoryview(content)[batch.start : batch.end]
        for record in islice(paused(iterate_records(whole), pause), index, None):
            if record.key is not None:
                yield bytes(record.key), None if record.value is None else bytes(record.value)


def paused(records: Iterator[Record], pause: Callable[[], None]) -> Iterator[Record]:
    """Yield the records, with a pause every `PAUSE_RECORDS`."""
    for count, record in enumerate(records, 1):
        yield record
        if count % PAUSE_RECORDS == 0:
            pause()


def _opened_keys(
    opened: OpenedRecords, count: int, pause: Callable[[], None]
) -> Generator[tuple[bytes, bytes | None], None, tuple[int, bool]]:
    """Yield the pairs that `_usual_keys` finds in each piece.

    Return the number of records that were read, and True if these are the whole batch.
    """
    index = 0
    while True:
        content = bytes(opened.content)
        index, opened.position = yield from _usual_keys(
            content, opened.position, len(content), index, count, pause
        )
        if index == count:
            return index, opened.is_at_end()
        if not opened.more():
            return index, False


def _usual_keys(
    content: bytes, position: int, end: int, index: int, count: int, pause: Callable[[], None]
) -> Generator[tuple[bytes, bytes | None], None, tuple[int, int]]:
    """Yield key and value of records `index` to `count`, up to the first that does not have the usual shape.

    Return the index after the last record that was read, and the position there.
    """
    while index < count:
        last = min(count, index + PAUSE_RECORDS)
        index, position = yield from _usual_records(content, position, end, index, last)
        if index < last:
            break
        if index < count:
            pause()
    return index, position


def _usual_records(
    content: bytes, position: int, batch_end: int, index: int, last: int
) -> Generator[tuple[bytes, bytes | None], None, tuple[int, int]]:
    """Yield key and value of records `index` to `last` that have short lengths, a key, no headers.

    A short length takes one or two bytes. At the first record that is different, or does not end exactly
    where it claims to, return its index and its position; else return `last` and the position of the next
    record.
    """
    start = position
    try:
        for at in range(index, last):
            index, start = at, position
            length = content[position]
            position += 1
            if length >= 0x80:
                more = content[position]
                position += 1
                length += (more << 7) - 0x80
                if more >= 0x80:
                    return index, start
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
                    return index, start
            key_start, position = position, position + (key_length >> 1)
            key_end = position
            value_length = content[position]
            position += 1
            value: bytes | None = None
            if value_length != 1:  # -1, for null
                if value_length >= 0x80:
                    more = content[position]
                    position += 1
                    value_length += (more << 7) - 0x80
                    if more >= 0x80:
                        return index, start
                value_end = position + (value_length >> 1)
                value = content[position:value_end]
                position = value_end
            # An odd length is a negative one. A header count of 0 is the record's last byte.
            if (
                (length | key_length) & 1
                or (value is not None and value_length & 1)
                or position + 1 != end
                or end > batch_end
                or content[position]
            ):
                return index, start
            position = end
            yield content[key_start:key_end], value
    except IndexError:
        return index, start
    return last, position
