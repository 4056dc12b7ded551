"""The last batches of a producer, found again in the log.

A snapshot keeps one batch of each producer, and a client may send any of its last five again. So the others
are looked for where they lie, when the first batch comes that is out of sequence; most producers send none.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from ottla.logstore.producer_state import RETAINED_BATCHES, BatchMetadata, ProducerEntry
from ottla.logstore.record_batch import MAX_SEQUENCE
from ottla.logstore.segment import Segment, headers_in
from ottla.logstore.words.errors import KafkaError

# How far back from the producer's oldest known batch: five requests of one client are not farther apart than
# what others write in some round trips. It is looked through once a producer.
MAX_SEARCH_BYTES: Final = 4 * 1024 * 1024
STEP_BYTES: Final = 64 * 1024  # that is looked through at a time, from the newest to the oldest


def complete_window(entry: ProducerEntry, segments: Sequence[Segment], base_offsets: Sequence[int]) -> bool:
    """Put the batches before those that `entry` knows in their place; whether there were any.

    Where the log is damaged the search ends: readers are told. OSError where it cannot be read.
    """
    entry.is_window_cut = False
    known = entry.batches
    if not known or len(known) >= RETAINED_BATCHES:
        return False
    missing = RETAINED_BATCHES - len(known)
    found: list[BatchMetadata] = []
    with suppress(KafkaError):
        for batches in _earlier_batches(
            entry.producer_id, entry.epoch, segments, base_offsets, upper_offset=known[0].first_offset
        ):
            found[:0] = batches
            if len(found) >= missing:
                break
    entry.batches = found[-missing:] + known
    return bool(found)


def _earlier_batches(
    producer_id: int,
    epoch: int,
    segments: Sequence[Segment],
    base_offsets: Sequence[int],
    *,
    upper_offset: int,
) -> Iterator[list[BatchMetadata]]:
    """The batches of a producer's epoch that end below `upper_offset`, of each piece of the log, the newest
    piece first.
    """
    left_bytes = MAX_SEARCH_BYTES
    for number in range(bisect_right(base_offsets, upper_offset - 1) - 1, -1, -1):
        segment = segments[number]
        position = segment.position_of(upper_offset)
        end = segment.size_bytes if position is None else position
        while end > 0:
            start = segment.offset_index.position_before(max(0, end - STEP_BYTES))
            batches: list[BatchMetadata] = []
            has_older_epoch = False
            for _, header in headers_in(segment.file, segment.path, start, end, STEP_BYTES):
                if header.producer_id != producer_id or header.is_control or header.base_sequence < 0:
                    continue
                if header.producer_epoch != epoch:
                    has_older_epoch = True
                    continue
                delta = header.last_offset_delta
                last_sequence = (header.base_sequence + delta) & MAX_SEQUENCE
                batches.append(BatchMetadata(last_sequence, header.last_offset, delta, header.max_timestamp))
            yield batches
            left_bytes -= end - start
            if has_older_epoch or left_bytes <= 0:
                return
            end = start
