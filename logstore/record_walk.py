"""The walk over the records of an opened batch: compiled where it was built, in Python elsewhere.

Compiled it takes some 15 ns a record, so all of every record is checked. In Python that takes a hundred times
as long, hence this rule: in a compacted topic every record is checked, for its key; in others the first
`FULLY_CHECKED_RECORDS` of a batch, and of those behind them the lengths, which shows whether they are as many
as the header counts. The header's timestamps are then believed.

What is returned, and how a walk is paused and taken up again, stands in `pure_record_walk`.
"""

from typing import Final

from logstore import pure_record_walk
from logstore.pure_record_walk import (
    DELTA,
    ENDS_EARLY,
    FIELD,
    HEADER_NAME,
    HEADERS,
    LENGTH,
    SOUND,
    walk_lengths,
)
from logstore.varint import ByteSource

__all__ = ["find", "is_plain", "spans", "walk"]

FULLY_CHECKED_RECORDS: Final = 16
NOT_COMPILED: Final = (
    "Records that clients send are checked in Python, and of large batches not all of each:"
    " logstore/_record_walk.c was not compiled when Ottla was installed. Install a C compiler and Python.h,"
    " then Ottla again."
)
Span = tuple[int, int, int, int, int, bytes | None, bool]
_WORDS = {
    LENGTH: "is cut off, or shorter than a record can be",
    FIELD: "has a field that leaves it, or a number that is too long",
    DELTA: "has an offset delta that is not its place in the batch",
    HEADERS: "counts more headers than fit in it, or less than none",
    HEADER_NAME: "has a header whose key is null",
    ENDS_EARLY: "has bytes behind its last header",
}

try:
    from logstore._record_walk import find, is_plain, spans, walk

    IS_COMPILED = True
except ImportError:  # There was no compiler when Ottla was installed.
    IS_COMPILED = False

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
        return pure_record_walk.walk(
            bytes(content),
            position,
            index,
            count,
            max_records,
            max_bytes,
            base_timestamp,
            earliest,
            latest,
            needs_key,
        )

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
        return is_plain_as_far_as_checked(
            content, position, count, base_timestamp, max_timestamp, earliest, latest
        )

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
        return pure_record_walk.find(
            bytes(content), position, index, count, max_records, base_timestamp, timestamp, offset_delta
        )

    def spans(
        content: ByteSource, position: int, index: int, count: int, max_records: int, /
    ) -> tuple[int, int, int, list[Span]]:
        return pure_record_walk.spans(bytes(content), position, index, count, max_records)


def fully_checked(count: int, *, needs_keys: bool) -> int:
    """Return how many of a batch's `count` records are checked in full here."""
    return count if IS_COMPILED or needs_keys else min(count, FULLY_CHECKED_RECORDS)


def is_plain_as_far_as_checked(
    content: ByteSource,
    position: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    earliest: int,
    latest: int,
) -> bool:
    """Tell what `is_plain` tells, by what is checked of many records where there was no compiler."""
    content = bytes(content)
    if count <= FULLY_CHECKED_RECORDS:
        return pure_record_walk.is_plain(
            content, position, count, base_timestamp, max_timestamp, earliest, latest
        )
    size = len(content)
    problem, index, position, _ = pure_record_walk.walk(
        content, position, 0, FULLY_CHECKED_RECORDS, count, size + 1, base_timestamp, earliest, latest, False
    )
    if problem == SOUND:
        problem, _, position = walk_lengths(content, position, index, count)
    return problem == SOUND and position == size


def sentence(problem: int, index: int) -> str:
    """Return what is wrong with record `index` of a batch, as a sentence."""
    return f"Record {index} of the batch {_WORDS[problem]}."
