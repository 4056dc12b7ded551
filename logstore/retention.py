"""The decisions which segments of a log are deleted, and when a log is flushed. Pure.

Segments are deleted as a whole, oldest first, and never one with a record at or above the high watermark. If
all of them have expired, the active one is rolled first, so that an empty log remains with its offsets
continued.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import NamedTuple

from ottla.logstore.log_config import LogConfig


class SegmentSpan(NamedTuple):
    """The facts about a segment that a decision needs: sizes in bytes, -1 for no timestamp."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int
    index_bytes: int = 0
    time_index_bytes: int = 0


class RetentionReason(Enum):
    """The reason for which a segment is deleted, in the words of the log line."""

    LOG_START_OFFSET = "it lies before the log start offset"
    RETENTION_BYTES = "the log is larger than retention.bytes"
    RETENTION_MS = "its newest record is older than retention.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The deletion of the first `len(reasons)` segments; `rolls`: roll the active segment first."""

    reasons: tuple[RetentionReason, ...] = ()
    rolls: bool = False
    new_log_start_offset: int = 0

    @property
    def delete_count(self) -> int:
        """The number of oldest segments to delete."""
        return len(self.reasons)


def retention_plan(
    segments: Sequence[SegmentSpan],
    *,
    config: LogConfig,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> RetentionPlan:
    """Decide which segments of a log to delete. `segments` has all in order, the active one last."""
    upper_bounds = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    # An empty active segment is kept for the next record; consumers may need records that are not replicated.
    candidates = sum(
        1
        for _ in takewhile(
            lambda number: (
                upper_bounds[number] <= high_watermark
                and not (number == len(segments) - 1 and segments[number].size_bytes == 0)
            ),
            range(len(segments)),
        )
    )
    reasons: list[RetentionReason] = []

    def take_while(reason: RetentionReason, is_over: Callable[[int], bool]) -> None:
        while len(reasons) < candidates and is_over(len(reasons)):
            reasons.append(reason)

    take_while(
        RetentionReason.LOG_START_OFFSET,
        lambda number: number + 1 < len(segments) and upper_bounds[number] <= log_start_offset,
    )
    if config.delete:
        if config.retention_bytes >= 0:
            rest = sum(segment.size_bytes for segment in segments[len(reasons) :])

            def is_oversize(number: int) -> bool:
                nonlocal rest
                if rest - segments[number].size_bytes < config.retention_bytes:
                    return False
                rest -= segments[number].size_bytes
                return True

            take_while(RetentionReason.RETENTION_BYTES, is_oversize)
        if config.retention_ms >= 0:
            take_while(
                RetentionReason.RETENTION_MS,
                lambda number: now_ms - segments[number].largest_timestamp > config.retention_ms,
            )
    if not reasons:
        return RetentionPlan(new_log_start_offset=log_start_offset)
    return RetentionPlan(
        reasons=tuple(reasons),
        rolls=len(reasons) == len(segments),
        new_log_start_offset=max(log_start_offset, upper_bounds[len(reasons) - 1]),
    )


def is_flush_due(
    *, config: LogConfig, log_end_offset: int, recovery_point: int, last_flush_ms: int, now_ms: int
) -> bool:
    """Return True if a log must be flushed to disk now, by flush.messages or flush.ms."""
    unflushed = log_end_offset - recovery_point
    return unflushed > 0 and (unflushed >= config.flush_messages or now_ms - last_flush_ms >= config.flush_ms)
