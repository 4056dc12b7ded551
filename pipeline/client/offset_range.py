"""A range of offsets to be read: small, as those who plan need nothing of what reads them."""

from dataclasses import dataclass

from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets `start` to before `end` of a partition; `topic_id` of zeros: whichever topic it is."""

    partition: TopicPartition
    topic_id: bytes = ZERO_UUID
    start: int
    end: int
