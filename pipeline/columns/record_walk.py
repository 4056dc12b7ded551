"""A walk over the records of many batches that finds where each begins and ends.

Records are chained: only the length of one says where the next begins. So a batch is walked record by record,
but a fetch holds many batches, and these are walked in lock step: one numpy step moves a cursor in each of
them forward by one record. When few cursors are left (large batches, or one much longer than the others), a
plain loop over bytes is cheaper.

A walk believes every length that it reads. Its result is proved afterwards in one pass: each record begins
with a length that leads to the next one, and the last one leads to the end of its batch. Nothing that is not
proved is returned.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from ottla.logstore.record import MIN_RECORD_BYTES
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import MAX_VARINT_BYTES
from ottla.pipeline.columns.landmarks import find_landmarks
from ottla.pipeline.columns.varints import REACH_OF_PAIR, Bytes, Int64s, read_pairs, read_varints

# A numpy step costs as much as this many records in the loop.
MIN_LOCK_STEP: Final = 48
# This many batches have cursors enough without guesses.
MANY_SECTIONS: Final = 256


class Section(NamedTuple):
    """The records of one batch: `records_count` of them, from `start` to `end` of the content."""

    start: int
    end: int
    records_count: int


class Walked(NamedTuple):
    """The place of each record's attributes, and its end, in the order of the sections."""

    starts: Int64s
    ends: Int64s


def walk_records(
    content: Bytes, sections: Sequence[Section], *, min_lock_step: int = MIN_LOCK_STEP
) -> Walked:
    """Return the places of all records in `sections`, each of which holds at least one.

    Raises CORRUPT_MESSAGE if a length leaves its section or bytes are left over.
    """
    if len(sections) < MANY_SECTIONS:
        divided = _divide(content, sections)
        if len(divided) > len(sections):
            try:
                return _walk(content, divided, min_lock_step)
            except KafkaError:
                pass  # Either a guess or the bytes are wrong: the walk without guesses decides.
    return _walk(content, sections, min_lock_step)


def find_record(content: Bytes, section: Section, count: int) -> tuple[int, int]:
    """Return where the attributes of record number `count` of a section begin, and the end of that record.

    The lengths on the way there are not proved. Raises CORRUPT_MESSAGE if they leave the section.
    """
    positions = _walk_alone(content[section.start : section.end].tobytes(), count)
    lengths, starts = read_varints(content, np.array([section.start + positions[-1]]))
    start, end = int(starts[0]), int(starts[0] + lengths[0])
    if not start < end <= section.end:
        raise _wrong_lengths()
    return start, end


def _divide(content: Bytes, sections: Sequence[Section]) -> list[Section]:
    """Return the sections, the large ones cut where records are guessed to begin."""
    divided: list[Section] = []
    for start, end, count in sections:
        positions, before = find_landmarks(content, start, end, count)
        cuts = [(start, 0), *zip(positions.tolist(), before.tolist(), strict=True), (end, count)]
        divided += [
            Section(here, there, later - earlier) for (here, earlier), (there, later) in pairwise(cuts)
        ]
    return divided


def _walk(content: Bytes, sections: Sequence[Section], min_lock_step: int) -> Walked:
    bounds = np.array(sections, np.int64).reshape(-1, 3)
    starts, ends, counts = bounds[:, 0], bounds[:, 1], bounds[:, 2]
    if (counts * MIN_RECORD_BYTES > ends - starts).any() or (counts < 1).any():
        raise _wrong_lengths()
    first_rows = np.cumsum(counts) - counts
    positions = np.empty(int(counts.sum()), np.int64)

    by_count = np.argsort(-counts, kind="stable")
    cursors = starts[by_count]
    step = _walk_in_lock_step(
        content, cursors, counts[by_count], first_rows[by_count], positions, min_lock_step
    )
    for place, section in enumerate(by_count.tolist()):
        row, left = int(first_rows[section]) + step, int(counts[section]) - step
        if left <= 0:
            break
        cursor, end = int(cursors[place]), int(ends[section])
        if not starts[section] <= cursor <= end:
            raise _wrong_lengths()
        positions[row : row + left] = _walk_alone(content[cursor:end].tobytes(), left)
        positions[row : row + left] += cursor
    return _prove(content, positions, starts, ends, first_rows)


def _walk_in_lock_step(
    content: Bytes, cursors: Int64s, counts: Int64s, first_rows: Int64s, positions: Int64s, min_lock_step: int
) -> int:
    """Move the cursors of sections, which are in order of falling count, as long as enough go on.

    Returns the number of steps.
    """
    rows = first_rows.copy()
    # The number of cursors that go on in each step; the last step is the last that moves `min_lock_step` of
    # them.
    last = max(min_lock_step, 1) - 1
    steps = int(counts[last]) if last < len(counts) else 0
    numbers_going_on = len(counts) - np.searchsorted(counts[::-1], np.arange(steps), side="right")
    for going_on in numbers_going_on.tolist():
        cursor, row = cursors[:going_on], rows[:going_on]
        positions[row] = cursor
        row += 1
        reach = REACH_OF_PAIR.take(read_pairs(content, cursor))
        if reach.all():
            cursor += reach
        else:  # some record is 8 KB long or more
            lengths, after = read_varints(content, cursor)
            np.add(after, lengths, out=cursor)
    return steps


def _walk_alone(records: bytes, count: int) -> list[int]:
    """Return the positions of `count` records, walked one after the other."""
    positions: list[int] = []
    append = positions.append
    position = 0
    try:
        for _ in range(count):
            append(position)
            byte = records[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
            elif (second := records[position + 1]) < 0x80:
                position += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                folded, size = byte & 0x7F | (second & 0x7F) << 7, 2
                while byte >= 0x80 and size < MAX_VARINT_BYTES:
                    byte = records[position + size]
                    folded |= (byte & 0x7F) << 7 * size
                    size += 1
                    if byte < 0x80:
                        break
                position += size + (folded >> 1)
    except IndexError:
        raise _wrong_lengths() from None
    return positions


def _prove(content: Bytes, positions: Int64s, starts: Int64s, ends: Int64s, first_rows: Int64s) -> Walked:
    lengths, record_starts = read_varints(content, positions)
    record_ends = np.empty_like(positions)
    record_ends[:-1] = positions[1:]
    record_ends[first_rows[1:] - 1] = ends[:-1]
    record_ends[-1:] = ends[-1:]
    is_whole = (
        (positions[first_rows] == starts).all()
        and (lengths >= MIN_RECORD_BYTES - 1).all()
        and (record_starts + lengths == record_ends).all()
    )
    if not is_whole:
        raise _wrong_lengths()
    return Walked(record_starts, record_ends)


def _wrong_lengths() -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, "The lengths of the records in a batch do not add up to its own."
    )
