"""The roll of a log: the rules by which it begins a new segment because the active one is full or too old."""

from typing import NamedTuple

from crc32c import crc32c

from ottla.logstore.batch_validator import stores_unchanged
from ottla.logstore.log_config import LogConfig
from ottla.logstore.segment import MAX_RELATIVE_OFFSET, Segment
from ottla.logstore.words.config_def import LONG_MAX
from ottla.logstore.words.topic_partition import TopicPartition


class Room(NamedTuple):
    """The bounds of the batches that fit into the active segment, computed once instead of for each batch.

    `as_it_is`: the topic's settings leave batches unchanged (`stores_unchanged`). The owner drops the bounds
    when an index is full, and when settings or segments change.
    """

    end_position: int
    last_offset: int
    last_timestamp: int
    last_clock_ms: int
    as_it_is: bool


def room_in(segment: Segment, config: LogConfig, longest_ms: int) -> Room:
    """Return the bounds within which `is_roll_due` is False for a segment that has batches."""
    first_timestamp = segment.first_timestamp
    has_time = first_timestamp >= 0  # otherwise the clock decides its age
    return Room(
        end_position=config.segment_bytes,
        last_offset=segment.base_offset + MAX_RELATIVE_OFFSET,
        last_timestamp=first_timestamp + longest_ms if has_time else LONG_MAX,
        last_clock_ms=LONG_MAX if has_time else segment.created_ms + longest_ms,
        as_it_is=stores_unchanged(config),
    )


def is_roll_due(
    segment: Segment,
    config: LogConfig,
    longest_ms: int,
    *,
    size_bytes: int,
    last_offset: int,
    timestamp: int,
    now_ms: int,
) -> bool:
    """Return True if a batch of `size_bytes` that ends at `last_offset` must go into a new segment."""
    return (
        segment.size_bytes + size_bytes > config.segment_bytes
        or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        or segment.is_full(config)
        or segment.age_ms(timestamp, now_ms) > longest_ms
    )


def longest_age_ms(topic_partition: TopicPartition, segment: Segment, config: LogConfig) -> int:
    """Return the age at which a segment is rolled: segment.ms minus its jitter."""
    if config.segment_jitter_ms <= 0:
        return config.max_segment_ms
    jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
    # A segment has the same jitter after a restart, and partitions have different ones.
    return config.max_segment_ms - crc32c(f"{topic_partition}/{segment.base_offset}".encode()) % jitter_ms
