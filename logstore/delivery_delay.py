"""The times at which the records of a batch are due, before which no share group gets them.

The delay is set in a header of the record, `ottla.deliver.at` or `ottla.deliver.after.ms`;
`pure_record_walk.due_times` has the rules, and `ottla.delivery.delay.enable` switches them on for a topic.
Records that the topic would reject may have been stored before delays were enabled: then a header without a
number means "at once", and a record that is due too far ahead waits for the maximum delay.
"""

from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from operator import lt
from typing import Final, NamedTuple

from ottla.logstore.log_config import LogConfig
from ottla.logstore.opened_records import NO_PAUSE, OpenedRecords, open_records
from ottla.logstore.pure_record_walk import DELAY, LENGTH, TOO_LATE, VALID
from ottla.logstore.record_batch import LOG_APPEND_TIME_BIT, BatchHeader
from ottla.logstore.record_walk import describe_problem, due_times
from ottla.logstore.words.config_def import LONG_MAX
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource

WALKED_AT_ONCE: Final = 16 * 1024  # records between two pauses: a millisecond, and results of 200 kB


class DueTimes(NamedTuple):
    """Some records of one batch that are not due yet: their offsets, in order, and the due time of each."""

    offsets: "array[int]"
    due_ms: "array[int]"


def delayed_records(
    header: BatchHeader,
    batch: ByteSource,
    config: LogConfig,
    now_ms: int,
    *,
    pause: Callable[[], None] = NO_PAUSE,
) -> Iterator[DueTimes]:
    """Yield the records of a batch that are due after `now_ms`, in order, a piece at a time.

    Compressed batches are decompressed piece by piece; `pause` is called between pieces and may raise.
    CORRUPT_MESSAGE or INVALID_RECORD for bytes that are not a batch.
    """
    if header.is_control or not header.records_count:
        return
    opened = open_records(header, batch, pause=pause)
    latest_ms = min(now_ms + config.ottla_delivery_delay_max_ms, LONG_MAX)
    walk_arguments = (*_timestamps_of(header), config.ottla_delivery_delay_ms, now_ms, latest_ms, False)
    base_offset, count, index = header.base_offset, header.records_count, 0
    following = 0
    while index < count:
        problem, index, opened.position, which, when = due_times(
            opened.content, opened.position, index, count, WALKED_AT_ONCE, *walk_arguments
        )
        if which:
            deltas, due_ms = array("i", which), array("q", when)
            if not _is_ascending(deltas, following, header.last_offset_delta):
                deltas, due_ms = _ascending_part(deltas, due_ms, following, header.last_offset_delta)
            if deltas:
                following = deltas[-1] + 1
                yield DueTimes(array("q", [base_offset + delta for delta in deltas]), due_ms)
        if problem != VALID and not (problem == LENGTH and opened.more()):
            raise KafkaError(ErrorCode.INVALID_RECORD, describe_problem(problem, index))
        pause()


def _is_ascending(deltas: "array[int]", first: int, last: int) -> bool:
    """Return True if the deltas ascend and lie between `first` and `last`: 0.3 ms for 16,384 of them."""
    return first <= deltas[0] and deltas[-1] <= last and all(map(lt, deltas, islice(deltas, 1, None)))


def _ascending_part(
    deltas: "array[int]", due_ms: "array[int]", following: int, last: int
) -> tuple["array[int]", "array[int]"]:
    """Drop offset deltas that do not ascend or lie outside the batch: some topics do not check records."""
    kept_deltas, kept_due_ms = array("i"), array("q")
    for delta, due in zip(deltas, due_ms, strict=True):
        if following <= delta <= last:
            kept_deltas.append(delta)
            kept_due_ms.append(due)
            following = delta + 1
    return kept_deltas, kept_due_ms


def refused_delays(
    header: BatchHeader, opened: OpenedRecords, config: LogConfig, now_ms: int
) -> Iterator[tuple[int, int]]:
    """Yield the index of each record that the topic rejects for its delay, with DELAY or TOO_LATE.

    `opened` has records as a producer sent them, which have passed all other checks.
    """
    latest_ms = min(now_ms + config.ottla_delivery_delay_max_ms, LONG_MAX)
    base_timestamp, is_stamped = header.base_timestamp, False
    if config.log_append_time:
        base_timestamp, is_stamped = now_ms, True
    # No record is due later than LONG_MAX, so `due_times` lists none and only reports problems.
    rest = (base_timestamp, is_stamped, 0, LONG_MAX, latest_ms, True)
    count, index = header.records_count, 0
    while index < count:
        problem, index, opened.position, _, _ = due_times(
            opened.content, opened.position, index, count, count, *rest
        )
        if problem in (DELAY, TOO_LATE):
            yield index, problem
            index += 1
        elif problem != VALID and not (problem == LENGTH and opened.more()):
            raise KafkaError(ErrorCode.INVALID_RECORD, describe_problem(problem, index))


def _timestamps_of(header: BatchHeader) -> tuple[int, bool]:
    """Return a timestamp of a batch in a log: the one of all its records and True, or its base and False."""
    if header.attributes & LOG_APPEND_TIME_BIT:
        return header.max_timestamp, True
    return header.base_timestamp, False
