"""The walk over the records of an opened batch: the compiled functions, or those in Python if there are none.

The compiled walk takes some 15 ns a record, so it checks every record in full. In Python that takes a hundred
times as long, hence this rule: in a compacted topic every record is checked, for its key. In other topics the
first `FULLY_CHECKED_RECORDS` of a batch are checked in full; of the rest only the lengths, which suffices to
compare their number with the header's count. The header's timestamps are then trusted.

`pure_record_walk` documents the return values, and how a walk is paused and continued.
"""

from typing import Final

from ottla.logstore.pure_record_walk import (
    DELAY,
    DELTA,
    ENDS_EARLY,
    FIELD,
    FULLY_CHECKED_RECORDS,
    HEADER_NAME,
    HEADERS,
    LENGTH,
    TOO_LATE,
)

try:
    from ottla.logstore._record_walk import due_times, find, is_plain, places, plain_fields, spans, walk

    IS_COMPILED = True
except ImportError:  # There was no compiler when Ottla was installed.
    from ottla.logstore.pure_record_walk import due_times, find, places, plain_fields, spans, walk
    from ottla.logstore.pure_record_walk import is_plain_as_far_as_checked as is_plain

    IS_COMPILED = False

__all__ = ["due_times", "find", "is_plain", "places", "plain_fields", "spans", "walk"]

NOT_COMPILED: Final = (
    "Records from clients are checked in Python, which is slower, and of large batches only a "
    "sample: logstore/_record_walk.c was not compiled when Ottla was installed. Install a C "
    "compiler and Python.h, then reinstall Ottla."
)
_WORDS = {
    LENGTH: "is cut off, or shorter than a record can be",
    FIELD: "has a field that extends beyond it, or a number that is too long",
    DELTA: "has an offset delta that does not match its position in the batch",
    HEADERS: "has a negative number of headers, or more than fit in it",
    HEADER_NAME: "has a header whose key is null",
    ENDS_EARLY: "has bytes after its last header",
    DELAY: "has no number in the header that says when to deliver it: use 1 to 19 ASCII digits, or 8 bytes",
    TOO_LATE: "is due further ahead than ottla.delivery.delay.max.ms allows",
}


def fully_checked(count: int, *, needs_keys: bool) -> int:
    """Return the number of a batch's `count` records that this process checks in full."""
    return count if IS_COMPILED or needs_keys else min(count, FULLY_CHECKED_RECORDS)


def describe_problem(problem: int, index: int) -> str:
    """Return a sentence that says what is wrong with record `index` of a batch."""
    return f"Record {index} of the batch {_WORDS[problem]}."
