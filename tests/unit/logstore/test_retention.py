"""The segments that retention deletes by start offset, size and time, never above the high watermark."""

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.retention import RetentionPlan, RetentionReason, SegmentSpan, is_flush_due, retention_plan

NOW_MS = 1_000_000
# Three segments of ten offsets and 100 bytes each, the last one active.
SEGMENTS = [SegmentSpan(0, 100, 1_000), SegmentSpan(10, 100, 2_000), SegmentSpan(20, 100, 3_000)]
START, SIZE, TIME = (
    RetentionReason.LOG_START_OFFSET,
    RetentionReason.RETENTION_BYTES,
    RetentionReason.RETENTION_MS,
)


def plan(
    config: LogConfig, *, start: int = 0, high_watermark: int = 30, now_ms: int = NOW_MS
) -> RetentionPlan:
    return retention_plan(
        SEGMENTS,
        config=config,
        log_start_offset=start,
        log_end_offset=30,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )


@pytest.mark.parametrize(
    ("config", "start", "reasons"),
    [
        (LogConfig(retention_ms=-1), 0, ()),
        (LogConfig(retention_ms=NOW_MS - 1_000), 0, ()),
        (LogConfig(retention_ms=NOW_MS - 1_001), 0, (TIME,)),
        (LogConfig(retention_ms=NOW_MS - 2_001), 0, (TIME, TIME)),
        (LogConfig(retention_ms=0), 0, (TIME, TIME, TIME)),
        (LogConfig(retention_ms=-1, retention_bytes=201), 0, ()),
        (LogConfig(retention_ms=-1, retention_bytes=200), 0, (SIZE,)),
        (LogConfig(retention_ms=-1, retention_bytes=0), 0, (SIZE, SIZE, SIZE)),
        (LogConfig(retention_ms=-1), 9, ()),
        (LogConfig(retention_ms=-1), 10, (START,)),
        (LogConfig(retention_ms=-1), 30, (START, START)),
        (LogConfig(retention_ms=-1, retention_bytes=100), 10, (START, SIZE)),
        (LogConfig(cleanup_policy=("compact",), retention_ms=0, retention_bytes=0), 10, (START,)),
        (LogConfig(cleanup_policy=("compact", "delete"), retention_ms=0), 0, (TIME, TIME, TIME)),
        (LogConfig(cleanup_policy=(), retention_ms=0), 0, ()),
    ],
)
def test_segments_are_deleted_by_the_policy(
    config: LogConfig, start: int, reasons: tuple[RetentionReason, ...]
) -> None:
    found = plan(config, start=start)

    assert found.reasons == reasons
    assert found.new_log_start_offset == max(start, len(reasons) * 10)
    assert found.rolls == (len(reasons) == len(SEGMENTS))


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    assert plan(LogConfig(retention_ms=0), high_watermark=19).delete_count == 1
    assert plan(LogConfig(retention_ms=0), high_watermark=9).delete_count == 0


def test_an_empty_active_segment_is_kept() -> None:
    found = retention_plan(
        [SegmentSpan(0, 100, 1_000), SegmentSpan(10, 0, 1_000)],
        config=LogConfig(retention_ms=0),
        log_start_offset=0,
        log_end_offset=10,
        high_watermark=10,
        now_ms=NOW_MS,
    )

    assert found.delete_count == 1 and not found.rolls


def test_a_segment_that_is_kept_protects_all_newer_ones() -> None:
    segments = [SegmentSpan(0, 100, NOW_MS), SegmentSpan(10, 100, 1), SegmentSpan(20, 100, 1)]
    found = retention_plan(
        segments,
        config=LogConfig(retention_ms=10),
        log_start_offset=0,
        log_end_offset=30,
        high_watermark=30,
        now_ms=NOW_MS,
    )

    assert found.delete_count == 0


@pytest.mark.parametrize(
    ("config", "unflushed", "waited_ms", "due"),
    [
        (LogConfig(), 10**9, 10**9, False),
        (LogConfig(flush_messages=5), 4, 0, False),
        (LogConfig(flush_messages=5), 5, 0, True),
        (LogConfig(flush_ms=50), 1, 50, True),
        (LogConfig(flush_ms=50), 1, 49, False),
        (LogConfig(flush_ms=50), 0, 50, False),
    ],
)
def test_flush_is_due_by_records_or_time(
    config: LogConfig, unflushed: int, waited_ms: int, due: bool
) -> None:
    assert due == is_flush_due(
        config=config, log_end_offset=unflushed, recovery_point=0, last_flush_ms=0, now_ms=waited_ms
    )
