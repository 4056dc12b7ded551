"""A range of offsets to be read. A module of its own, since planning needs none of the code that reads it."""

from dataclasses import dataclass

from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets `start` to before `end` of a partition; a `topic_id` of zeros allows any topic of the name."""

    partition: TopicPartition
    topic_id: bytes = ZERO_UUID
    start: int
    end: int
