"""The first record at or after an offset, which gives the age of the records that a reader has not read yet.

Only the length, the timestamp and the offset of each record are read; transaction markers are skipped.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.logstore.opened_records import NO_PAUSE, find_record, open_records
from ottla.logstore.pure_record_walk import LONG_MIN
from ottla.logstore.record_batch import LOG_APPEND_TIME_BIT, BatchHeader, check_batch, iterate_headers
from ottla.logstore.words.varint import ByteSource


class Oldest(NamedTuple):
    """The offset of a record and its timestamp (-1 for none).

    The timestamp is None if no record was found; then the offset is the one from which to search on.
    """

    offset: int
    timestamp_ms: int | None = None


def oldest_record(batches: bytes | memoryview, position: int) -> Oldest:
    """Return the first data record at or after the offset `position` in some batches.

    The last batch may be torn. CORRUPT_MESSAGE or INVALID_RECORD for bytes that are not batches.
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
    pause: Callable[[], None] = NO_PAUSE,
) -> Oldest | None:
    """Return the first record at or after `offset` whose timestamp is `timestamp_ms` or later, or None.

    With `is_exact` its timestamp must equal `timestamp_ms`. Only the first fields of each record are read,
    and nothing behind the record is decompressed. `pause` is called every millisecond or so, and may raise.
    CORRUPT_MESSAGE or INVALID_RECORD for bytes that are not a batch.
    """
    is_log_append_time = header.attributes & LOG_APPEND_TIME_BIT
    if is_log_append_time:
        if header.max_timestamp < timestamp_ms or (is_exact and header.max_timestamp != timestamp_ms):
            return None
        timestamp_ms, is_exact = LONG_MIN, False
    opened = open_records(header, batch, pause=pause)
    index = 0
    while True:
        index, found, found_ms = find_record(
            opened,
            index,
            header.records_count,
            base_timestamp=header.base_timestamp,
            timestamp=timestamp_ms,
            offset_delta=offset - header.base_offset,
            pause=pause,
        )
        if found < 0:
            return None
        if not is_exact or found_ms == timestamp_ms:
            return Oldest(
                header.base_offset + found, header.max_timestamp if is_log_append_time else found_ms
            )
