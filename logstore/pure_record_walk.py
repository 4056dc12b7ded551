"""Walks over the records of a decompressed batch in pure Python: the reference of the compiled functions.

Each function walks over `content`, the decompressed records of one batch, from `position`, where record
`index` of `count` begins, and stops after `max_records`. So a walk can be paused, and continued with the
index and the position that it returned. No length is trusted: each is compared with the bytes that are left.

A result begins with one of the numbers below: VALID, or the problem of the record at the index and position
that follow. The compiled functions return the same results (`tests/property/walk_twins.py`,
`scripts/fuzz-walk`). A buffer other than `bytes` is copied at each call, except by `plain_fields`, which
reads only the header of a batch.
"""

from array import array
from typing import Final

from ottla.logstore.record_batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.varint import ByteSource, read_varint, read_varlong

MIN_RECORD_BYTES: Final = 7  # length, attributes, two deltas, two lengths, header count: one byte each
LONG_MIN: Final = -(2**63)
NO_TIMESTAMP: Final = -1

VALID: Final = 0
LENGTH: Final = 1  # the record is cut off, or too short
FIELD: Final = 2  # a field extends beyond its record, or a varint is too long
DELTA: Final = 3  # the offset delta is not the record's index (`find`, `spans`, `due_times`: is out of range)
HEADERS: Final = 4  # the number of headers is negative, or more than fit
HEADER_NAME: Final = 5  # the name of a header is null
ENDS_EARLY: Final = 6  # bytes are left between the headers and the end of the record
KEYLESS: Final = 7  # the key is null where one is required
TIMESTAMP: Final = 8  # the timestamp is outside the accepted range
DELAY: Final = 9  # the value of a delivery header is not a number
TOO_LATE: Final = 10  # by its delivery header the record is due too far ahead

DELIVER_AT: Final = b"ottla.deliver.at"
DELIVER_AFTER: Final = b"ottla.deliver.after.ms"
MAX_DIGITS: Final = 19  # as many as 2^63-1 has
LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1  # a varint of five bytes may be larger

FULLY_CHECKED_RECORDS: Final = 16  # per batch, where the walk is not compiled
_DIGITS: Final = frozenset(b"0123456789")
Span = tuple[int, int, int, int, int, bytes | None, bool]


def walk(
    content: ByteSource,
    position: int,
    index: int,
    count: int,
    max_records: int,
    max_bytes: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    /,
) -> tuple[int, int, int, int]:
    """Check every field of each record; return (problem, index, position, largest timestamp).

    The walk also pauses before a record that begins `max_bytes` or more after `position`. After KEYLESS and
    TIMESTAMP the position is behind the record, so that the walk can continue with index + 1. The largest
    timestamp is -2^63 if there was no record; after TIMESTAMP it is the one of the record at fault. A
    timestamp of -1 is always accepted.
    """
    content = bytes(content)
    last, pause = min(count, index + max(max_records, 0)), position + max_bytes
    size, largest = len(content), LONG_MIN
    while index < last and position < pause:
        start = position
        # Most varints here are one byte, so that case is inlined.
        try:
            byte = content[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(content, position)
        except (IndexError, KafkaError):
            return LENGTH, index, start, largest
        end = position + length
        if length < MIN_RECORD_BYTES - 1 or end > size:
            return LENGTH, index, start, largest
        try:
            position += 1  # the attributes, which are not used yet
            byte = content[position]
            if byte < 0x80:
                timestamp, position = base_timestamp + ((byte >> 1) ^ -(byte & 1)), position + 1
            else:
                timestamp, position = read_varlong(content, position)
                timestamp += base_timestamp
            byte = content[position]
            if byte < 0x80:
                delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                delta, position = read_varint(content, position)
            byte = content[position]
            if byte < 0x80:
                key, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                key, position = read_varint(content, position)
            if key > 0:
                position += key
            byte = content[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(content, position)
            if length > 0:
                position += length
            byte = content[position]
            if byte < 0x80:
                headers, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                headers, position = read_varint(content, position)
        except (IndexError, KafkaError):
            return FIELD, index, start, largest
        if position > end:
            return FIELD, index, start, largest
        if delta != index:
            return DELTA, index, start, largest
        if headers:
            problem, position = _step_over_headers(content, position, end, headers)
            if problem:
                return problem, index, start, largest
        if position != end:
            return ENDS_EARLY, index, start, largest
        if timestamp.bit_length() > 63:  # Sums wrap around as in every Java client.
            timestamp = (timestamp + 2**63) % 2**64 - 2**63
        if key < 0 and needs_key:
            return KEYLESS, index, position, largest
        if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
            return TIMESTAMP, index, position, timestamp
        if timestamp > largest:
            largest = timestamp
        index += 1
    return VALID, index, position, largest


def _step_over_headers(content: bytes, position: int, end: int, headers: int) -> tuple[int, int]:
    if not 0 < headers <= (end - position) // 2:  # a header takes at least two bytes
        return HEADERS, position
    try:
        for _ in range(headers):
            length, position = read_varint(content, position)
            if position > end:
                return FIELD, position
            if length < 0:
                return HEADER_NAME, position
            length, position = read_varint(content, position + length)
            position += max(length, 0)
            if position > end:
                return FIELD, position
    except KafkaError:
        return FIELD, position
    return VALID, position


def is_plain(
    content: ByteSource,
    position: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    earliest: int,
    latest: int,
    /,
) -> bool:
    """Return True if `count` records pass all checks of `walk` and end exactly where `content` ends.

    Their largest timestamp must also be `max_timestamp`, the one in the header.
    """
    size = len(content)
    problem, _, position, largest = walk(
        content, position, 0, count, count, size + 1, base_timestamp, earliest, latest, False
    )
    return problem == VALID and position == size and largest == max_timestamp


def is_plain_as_far_as_checked(
    content: ByteSource,
    position: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    earliest: int,
    latest: int,
    /,
) -> bool:
    """Return True if the records pass `is_plain`, of which only a sample is checked in a large batch."""
    content = bytes(content)
    if count <= FULLY_CHECKED_RECORDS:
        return is_plain(content, position, count, base_timestamp, max_timestamp, earliest, latest)
    size = len(content)
    problem, index, position, _ = walk(
        content, position, 0, FULLY_CHECKED_RECORDS, count, size + 1, base_timestamp, earliest, latest, False
    )
    if problem == VALID:
        problem, _, position = walk_lengths(content, position, index, count)
    return problem == VALID and position == size


def places(
    content: ByteSource, position: int, end: int, count: int, into: memoryview, row: int, rows: int, /
) -> tuple[int, int]:
    """Write the positions of the parts of `count` records, which fill `content` from `position` to `end`.

    `into` has seven columns of `rows` 64-bit numbers, and the first of these records is row `row`: end,
    timestamp delta, offset delta, position of the key and its length, position of the value and its length.
    The content of headers is not read. Return (problem, index); LENGTH at index `count` means that bytes are
    left over.
    """
    columns = into.cast("B").cast("q")
    content = bytes(content[:end])
    for index in range(count):
        try:
            length, start = read_varint(content, position)
        except KafkaError:
            return LENGTH, index
        record_end = start + length
        if length < MIN_RECORD_BYTES - 1 or record_end > end:
            return LENGTH, index
        record, at = content[start:record_end], 1
        found = [record_end]
        try:
            for read in (read_varlong, read_varint):
                number, at = read(record, at)
                found.append(number)
            for _ in ("key", "value"):
                length, at = read_varint(record, at)
                found += [start + at, length]
                at += max(length, 0)
            headers, at = read_varint(record, at)
        except KafkaError:
            return FIELD, index
        columns[row + index :: rows] = array("q", found)
        if headers < 0:
            return HEADERS, index
        if headers == 0 and at != len(record):
            return ENDS_EARLY, index
        position = record_end
    return (VALID if position == end else LENGTH), count


def plain_fields(
    batch: ByteSource, max_bytes: int, earliest: int, latest: int, latest_codec: int, /
) -> tuple[int, ...] | None:
    """Return the header fields of a client's batch if it is plain; None if it needs the full validation.

    A plain header has timestamps between `earliest` and `latest`, a codec up to `latest_codec`, and neither a
    transaction nor an error. The CRC is not checked.
    """
    if len(batch) < HEADER_SIZE:
        return None
    fields = HEADER.unpack_from(batch)
    base_offset, batch_length, _, magic, _, attributes, delta, base_ms, max_ms = fields[:9]
    producer_id, _, sequence, count = fields[9:]
    is_plain_header = (
        base_offset == 0
        and magic == MAGIC
        and LOG_OVERHEAD + batch_length == len(batch) <= max_bytes
        and 0 <= attributes <= latest_codec  # neither transactional nor control
        and 0 <= delta == count - 1
        and (producer_id < 0 or sequence >= 0)
        and earliest <= base_ms <= latest
        and earliest <= max_ms <= latest
    )
    return fields if is_plain_header else None


def walk_lengths(content: ByteSource, position: int, index: int, count: int) -> tuple[int, int, int]:
    """Check only the lengths of the records, in a fifth of the time; return (problem, index, position)."""
    content = bytes(content)
    size = len(content)
    while index < count:
        start = position
        try:
            byte = content[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(content, position)
        except (IndexError, KafkaError):
            return LENGTH, index, start
        position += length
        if length < MIN_RECORD_BYTES - 1 or position > size:
            return LENGTH, index, start
        index += 1
    return VALID, index, position


def find(
    content: ByteSource,
    position: int,
    index: int,
    count: int,
    max_records: int,
    base_timestamp: int,
    timestamp: int,
    offset_delta: int,
    /,
) -> tuple[int, int, int, int, int]:
    """Find the first record with at least this timestamp and this offset delta.

    Return (problem, index, position, its offset delta, its timestamp). Index and position are those after the
    record; the offset delta is -1 if none was found so far. Only the first fields of each record are read.
    """
    content = bytes(content)
    last, size = min(count, index + max(max_records, 0)), len(content)
    while index < last:
        start = position
        try:
            length, position = read_varint(content, position)
        except KafkaError:
            return LENGTH, index, start, -1, 0
        end = position + length
        if length < MIN_RECORD_BYTES - 1 or end > size:
            return LENGTH, index, start, -1, 0
        try:
            timestamp_delta, position = read_varlong(content, position + 1)
            delta, position = read_varint(content, position)
        except KafkaError:
            return FIELD, index, start, -1, 0
        if position > end:
            return FIELD, index, start, -1, 0
        if delta < 0:
            return DELTA, index, start, -1, 0
        index, position = index + 1, end
        if delta >= offset_delta:
            found = base_timestamp + timestamp_delta
            if found.bit_length() > 63:  # Sums wrap around as in every Java client.
                found = (found + 2**63) % 2**64 - 2**63
            if found >= timestamp:
                return VALID, index, position, delta, found
    return VALID, index, position, -1, 0


def spans(
    content: ByteSource, position: int, index: int, count: int, max_records: int, /
) -> tuple[int, int, int, list[Span]]:
    """Find the positions of the next records; return (problem, index, position, a tuple for each record).

    A tuple has the positions of the record's start, of the byte after its timestamp delta, and of its end,
    its offset delta and timestamp delta, its key, and True if it has a value. Values and headers are skipped.
    """
    content = bytes(content)
    last, size = min(count, index + max(max_records, 0)), len(content)
    found: list[Span] = []
    while index < last:
        start = position
        try:
            byte = content[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(content, position)
        except (IndexError, KafkaError):
            return LENGTH, index, start, found
        end = position + length
        if length < MIN_RECORD_BYTES - 1 or end > size:
            return LENGTH, index, start, found
        try:
            timestamp_delta, rest = read_varlong(content, position + 1)
            delta, position = read_varint(content, rest)
            byte = content[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(content, position)
            key_start, key_end = position, position + length
            if length > 0:
                position = key_end
            has_key = length >= 0
            byte = content[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(content, position)
        except (IndexError, KafkaError):
            return FIELD, index, start, found
        # The count of headers must still follow.
        if position + max(length, 0) >= end:
            return FIELD, index, start, found
        if delta < 0:
            return DELTA, index, start, found
        key = content[key_start:key_end] if has_key else None
        found.append((start, rest, end, delta, timestamp_delta, key, length >= 0))
        index, position = index + 1, end
    return VALID, index, position, found


def due_times(
    content: ByteSource,
    position: int,
    index: int,
    count: int,
    max_records: int,
    base_timestamp: int,
    is_stamped: bool,
    default_delay: int,
    now: int,
    latest: int,
    is_strict: bool,
    /,
) -> tuple[int, int, int, bytes, bytes]:
    """Find the next records that are due after `now`; return (problem, index, position, which, when).

    `which` has their offset deltas as native 32-bit numbers, and `when` their due times as 64-bit numbers.
    The due time is in the last header DELIVER_AT; else it is the record's timestamp plus the delay in the
    last header DELIVER_AFTER, or plus `default_delay`. With `is_stamped`, all records have the timestamp
    `base_timestamp`. A number is written in ASCII digits, at most 19, or in 8 bytes; 8 bytes that are all
    digits are read as digits.

    A record that is due after `latest` counts as due at `latest`, and a header without a number as "at once".
    With `is_strict` these are the problems TOO_LATE and DELAY instead, with the position behind the record,
    so that the walk can continue with index + 1.
    """
    content = bytes(content)
    last, size = min(count, index + max(max_records, 0)), len(content)
    which, when = array("i"), array("q")
    problem = VALID
    while index < last:
        start = position
        try:
            length, position = read_varint(content, position)
        except KafkaError:
            return LENGTH, index, start, which.tobytes(), when.tobytes()
        end = position + length
        if length < MIN_RECORD_BYTES - 1 or end > size:
            return LENGTH, index, start, which.tobytes(), when.tobytes()
        try:
            timestamp, position = read_varlong(content, position + 1)
            timestamp = base_timestamp if is_stamped else wrapped(base_timestamp + timestamp)
            delta, position = read_varint(content, position)
            for _ in range(2):  # key and value
                length, position = read_varint(content, position)
                position += max(length, 0)
            headers, position = read_varint(content, position)
        except KafkaError:
            return FIELD, index, start, which.tobytes(), when.tobytes()
        if position > end:
            return FIELD, index, start, which.tobytes(), when.tobytes()
        if not 0 <= delta <= INT_MAX:
            return DELTA, index, start, which.tobytes(), when.tobytes()
        due = _capped_sum(timestamp, default_delay)
        if headers:
            problem, delivery = _delivery_headers(content, position, end, headers)
            if problem:
                return problem, index, start, which.tobytes(), when.tobytes()
            due, problem = _delivery_due(due, timestamp, latest, delivery)
            if problem and is_strict:
                return problem, index, end, which.tobytes(), when.tobytes()
        due = min(due, latest)
        if due > now:
            which.append(delta)
            when.append(due)
        index, position = index + 1, end
    return VALID, index, position, which.tobytes(), when.tobytes()


def wrapped(timestamp: int) -> int:
    """Return a sum as a Java client computes it: wrapped around to 64 bits."""
    return timestamp if timestamp.bit_length() <= 63 else (timestamp + 2**63) % 2**64 - 2**63


def _capped_sum(timestamp: int, delay: int) -> int:
    return min(timestamp + delay, LONG_MAX)


def _delivery_due(
    due: int, timestamp: int, latest: int, delivery: dict[bytes, bytes | None]
) -> tuple[int, int]:
    """Return the time at which a record is due, and the problem of the header that sets it."""
    if DELIVER_AT in delivery:
        number = _number(delivery[DELIVER_AT])
        due = LONG_MIN if number is None else number
    elif DELIVER_AFTER in delivery:
        number = _number(delivery[DELIVER_AFTER])
        due = LONG_MIN if number is None else _capped_sum(timestamp, number)
    else:
        return due, VALID
    return due, DELAY if number is None else TOO_LATE if due > latest else VALID


def _number(value: bytes | None) -> int | None:
    """Return the number in the value of a delivery header, or None if there is none."""
    if value and len(value) <= MAX_DIGITS and _DIGITS.issuperset(value):
        number = int(value)
        return number if number <= LONG_MAX else None
    if value and len(value) == 8 and value[0] < 0x80:
        return int.from_bytes(value, "big")
    return None


def _delivery_headers(
    content: bytes, position: int, end: int, headers: int
) -> tuple[int, dict[bytes, bytes | None]]:
    delivery: dict[bytes, bytes | None] = {}
    if not 0 < headers <= (end - position) // 2:
        return HEADERS, delivery
    try:
        for _ in range(headers):
            length, position = read_varint(content, position)
            if position > end:
                return FIELD, delivery
            if length < 0:
                return HEADER_NAME, delivery
            name = content[position : position + length] if length <= len(DELIVER_AFTER) else b""
            length, position = read_varint(content, position + length)
            begin, position = position, position + max(length, 0)
            if position > end:
                return FIELD, delivery
            if name in (DELIVER_AT, DELIVER_AFTER):
                delivery[name] = content[begin:position] if length >= 0 else None
    except KafkaError:
        return FIELD, delivery
    return VALID, delivery
