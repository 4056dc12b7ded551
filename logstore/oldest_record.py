"""The first record at or after an offset: how old is what a reader has not read yet.

Of each record its length, timestamp and offset are read, no more; markers of transactions are passed over.
"""

from typing import NamedTuple

from logstore.compression import decompress
from logstore.errors import ErrorCode, KafkaError
from logstore.record_batch import HEADER_SIZE, LOG_APPEND_TIME_BIT, BatchHeader, check_batch, iterate_headers
from logstore.varint import read_varint, read_varlong


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
        found = _first_from(view[start : start + header.size_bytes], header, position)
        if found is not None:
            return found
    return Oldest(next_offset)


def _first_from(batch: memoryview, header: BatchHeader, position: int) -> Oldest | None:
    content = bytes(decompress(header.compression, batch[HEADER_SIZE:]))
    wanted_delta = position - header.base_offset
    place = 0
    for _ in range(header.records_count):
        length, start = read_varint(content, place)
        place = start + length
        if length < 1 or place > len(content):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"A record says that it is {length} bytes long.")
        timestamp_delta, start = read_varlong(content, start + 1)
        offset_delta, _ = read_varint(content, start)
        if offset_delta >= wanted_delta:
            is_log_append_time = bool(header.attributes & LOG_APPEND_TIME_BIT)
            timestamp = (
                header.max_timestamp if is_log_append_time else header.base_timestamp + timestamp_delta
            )
            # Sums wrap around as in every Java client.
            return Oldest(header.base_offset + offset_delta, (timestamp + 2**63) % 2**64 - 2**63)
    return None
