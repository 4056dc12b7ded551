"""The plan of a round of cleaning: its range, its urgency, and the segments that are merged. Pure.

The rules are Kafka's: only whole closed segments are cleaned, never beyond the last stable offset, the
dirtiest log first, and earlier if max.compaction.lag.ms is exceeded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.logstore.retention import SegmentSpan


class CleanableRange(NamedTuple):
    """The part of a log that the next round can clean, from the first offset up to, without, the second."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    is_checkpoint_valid: bool


def cleanable_range(
    closed: Sequence[SegmentSpan],
    *,
    active_base_offset: int,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    checkpoint: int | None,
    min_compaction_lag_ms: int,
    now_ms: int,
) -> CleanableRange:
    """Return the range in which a log may be cleaned.

    It never includes the active segment, anything beyond the last stable offset (where a transaction is
    open), or records younger than min.compaction.lag.ms. A checkpoint outside the log is ignored.
    """
    is_valid = checkpoint is None or log_start_offset <= checkpoint <= log_end_offset
    first_dirty = checkpoint if checkpoint is not None and is_valid else log_start_offset
    end = min(last_stable_offset, active_base_offset)
    if min_compaction_lag_ms > 0:
        for segment in _from_offset(closed, first_dirty):
            if segment.largest_timestamp > now_ms - min_compaction_lag_ms:
                end = min(end, segment.base_offset)
                break
    return CleanableRange(first_dirty, max(first_dirty, end), is_valid)


def _from_offset(segments: Sequence[SegmentSpan], offset: int) -> Sequence[SegmentSpan]:
    """Return the segments from the one that contains `offset` on."""
    first = 0
    for number, segment in enumerate(segments):
        if segment.base_offset > offset:
            break
        first = number
    return segments[first:]


class CleaningCandidate(NamedTuple):
    """The urgency of cleaning a log; `delay_ms` is the time by which max.compaction.lag.ms is exceeded."""

    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int

    @property
    def dirty_ratio(self) -> float:
        """The share of the cleanable log that is new since the last round."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Return True if the log should be cleaned now."""
        return self.cleanable_bytes > 0 and (
            self.delay_ms > 0 or self.dirty_ratio > min_cleanable_dirty_ratio
        )


def candidate(
    closed: Sequence[SegmentSpan],
    cleanable: CleanableRange,
    *,
    active_base_offset: int,
    first_batch_timestamps: Sequence[int],
    max_compaction_lag_ms: int,
    now_ms: int,
) -> CleaningCandidate:
    """Return the urgency of cleaning a log.

    The end offset is rounded down to the start of a segment, as whole segments are cleaned.
    `first_batch_timestamps` are those of the closed segments from the first dirty offset on.
    """
    end = active_base_offset
    if cleanable.first_uncleanable_offset < active_base_offset:
        # The segment with the first offset that must not be cleaned, and all after it, are left as they are.
        rest = _from_offset(closed, cleanable.first_uncleanable_offset)
        end = rest[0].base_offset if rest else active_base_offset
    start = min(cleanable.first_dirty_offset, end)
    dirty = [one for one in _from_offset(closed, start) if one.base_offset < end] if start < end else []
    cleanable_bytes = sum(one.size_bytes for one in dirty)
    clean_bytes = sum(one.size_bytes for one in closed if one.base_offset < cleanable.first_dirty_offset)
    earliest = min((one for one in first_batch_timestamps if one > 0), default=None)
    delay_ms = 0 if earliest is None else max(0, now_ms - max_compaction_lag_ms - earliest)
    return CleaningCandidate(end, clean_bytes, cleanable_bytes, delay_ms)


def group_segments(
    segments: Sequence[SegmentSpan], *, max_segment_bytes: int, max_index_bytes: int, end_offset: int
) -> list[Sequence[SegmentSpan]]:
    """Group adjacent segments to merge into one each, within its limits in bytes, index size and offsets."""
    groups: list[list[SegmentSpan]] = []
    for number, segment in enumerate(segments):
        last_offset = segments[number + 1].base_offset - 1 if number + 1 < len(segments) else end_offset - 1
        group = groups[-1] if groups else None
        if (
            group is not None
            and sum(one.size_bytes for one in group) + segment.size_bytes <= max_segment_bytes
            and sum(one.index_bytes for one in group) + segment.index_bytes <= max_index_bytes
            and sum(one.time_index_bytes for one in group) + segment.time_index_bytes <= max_index_bytes
            and (segment.size_bytes == 0 or last_offset - group[0].base_offset <= 2**31 - 1)
        ):
            group.append(segment)
        else:
            groups.append([segment])
    return list(groups)
