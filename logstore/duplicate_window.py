"""The search for the last batches of a producer in the log.

A snapshot has one batch of each producer, but a client may send any of its last five again. So the others are
searched in the log when the first batch out of sequence arrives; most producers never send one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from ottla.logstore.producer_state import RETAINED_BATCHES, BatchMetadata, ProducerEntry
from ottla.logstore.record_batch import MAX_SEQUENCE
from ottla.logstore.segment import Segment, headers_in
from ottla.logstore.words.errors import KafkaError

# The distance to search back from the producer's oldest known batch: between five requests of one client,
# other clients write no more than in a few round trips. The search is made once for a producer.
MAX_SEARCH_BYTES: Final = 4 * 1024 * 1024
STEP_BYTES: Final = 64 * 1024  # searched at a time, from the newest to the oldest


def complete_window(entry: ProducerEntry, segments: Sequence[Segment], base_offsets: Sequence[int]) -> bool:
    """Add to `entry` the batches before those that it has; return True if any were found.

    At damage in the log the search ends without an error, as readers will get one. OSError if the log cannot
    be read.
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
    """Yield, for each piece of the log, the batches of a producer's epoch that end below `upper_offset`.

    The newest piece comes first.
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
