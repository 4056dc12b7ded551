"""The first record at or after an offset: how old is what a reader has not read yet.

Of each record its length, timestamp and offset are read, no more; markers of transactions are passed over.
"""

from typing import NamedTuple

from logstore.compression import decompress
from logstore.errors import ErrorCode, KafkaError
from logstore.pure_record_walk import LONG_MIN, SOUND
from logstore.record_batch import HEADER_SIZE, LOG_APPEND_TIME_BIT, BatchHeader, check_batch, iterate_headers
from logstore.record_walk import find, sentence
from logstore.varint import ByteSource


class Oldest(NamedTuple):
    """Offset and timestamp (-1: it has none) of the first record; None if no batch had one from there on, and
    the offset is where to look on.
    """

    offset: int
    timestamp_ms: int | None = None


def oldest_record(batches: bytes | memoryview, position: int) -> Oldest:
    """The first data record at or after `position` in a run of batches, the last of which may be torn.

    CORRUPT_MESSAGE and its like on bytes that are no batches.
    """
    view = memoryview(batches)
    next_offset = position
    for start, header in iterate_headers(view):
        next_offset = max(next_offset, header.next_offset)
        if header.is_control or header.next_offset <= position:
            continue
        check_batch(view, start)
        found = first_record(view[start : start + header.size_bytes], header, position)
        if found is not None:
            return found
    return Oldest(next_offset)


def first_record(
    batch: ByteSource,
    header: BatchHeader,
    offset: int,
    timestamp_ms: int = LONG_MIN,
    *,
    is_exact: bool = False,
) -> Oldest | None:
    """Return the first record at or after `offset` whose timestamp is `timestamp_ms` or later, or None.

    With `is_exact` its timestamp is `timestamp_ms`. Of each record only the head is read. CORRUPT_MESSAGE or
    INVALID_RECORD on bytes that are no batch.
    """
    if len(batch) < header.size_bytes:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A batch of {len(batch)} bytes says {header.size_bytes}."
        )
    is_log_append_time = header.attributes & LOG_APPEND_TIME_BIT
    if is_log_append_time:
        if header.max_timestamp < timestamp_ms or (is_exact and header.max_timestamp != timestamp_ms):
            return None
        timestamp_ms, is_exact = LONG_MIN, False
    content = decompress(header.compression, memoryview(batch)[HEADER_SIZE : header.size_bytes])
    count, base, delta = header.records_count, header.base_timestamp, offset - header.base_offset
    index = position = 0
    while True:
        problem, index, position, found, found_ms = find(
            content, position, index, count, count, base, timestamp_ms, delta
        )
        if problem != SOUND:
            raise KafkaError(ErrorCode.INVALID_RECORD, sentence(problem, index))
        if found < 0:
            return None
        if not is_exact or found_ms == timestamp_ms:
            return Oldest(
                header.base_offset + found, header.max_timestamp if is_log_append_time else found_ms
            )
