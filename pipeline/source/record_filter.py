"""The filter of a batch's records, by topic, partition, offset and timestamp, which narrows its reads.

For offsets and partitions the filter is applied before anything is read. A log is not in the order of its
timestamps, so times are compared record by record; only the first offset is found, by asking the cluster.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import ge, gt, le, lt
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.integer_ranges import ALL, LEAST, MOST, IntegerRanges

US_PER_MS: Final = 1_000
FILTERED_COLUMNS: Final = ("topic", "partition", "offset", "timestamp")


class Comparison(Enum):
    """A comparison with a column, as SQL writes it."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison of a column with values: equal to one of them, to none, or ordered against the only one.

    Values of `topic` are text, those of the other columns integers; a timestamp is in microseconds.
    """

    column: str
    comparison: Comparison
    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """The records that meet all of some conditions."""

    topics: tuple[Condition, ...] = ()
    partitions: IntegerRanges = ALL
    offsets: IntegerRanges = ALL
    timestamps_ms: IntegerRanges = ALL

    @classmethod
    def of(cls, conditions: Iterable[Condition]) -> "RecordFilter":
        """Return the filter of records that meet all conditions."""
        topics = []
        integers = dict.fromkeys(("partition", "offset", "timestamp"), ALL)
        for one in conditions:
            if one.column == "topic":
                topics.append(one)
            else:
                integers[one.column] &= _integers(one)
        return cls(
            topics=tuple(topics),
            partitions=integers["partition"],
            offsets=integers["offset"],
            timestamps_ms=integers["timestamp"],
        )

    def __and__(self, other: "RecordFilter") -> "RecordFilter":
        """Return the filter of records that meet both."""
        return RecordFilter(
            topics=self.topics + other.topics,
            partitions=self.partitions & other.partitions,
            offsets=self.offsets & other.offsets,
            timestamps_ms=self.timestamps_ms & other.timestamps_ms,
        )

    def keeps(self, partition: TopicPartition) -> bool:
        """Return True if any record of the partition may be wanted."""
        return (
            bool(self.offsets.ranges and self.timestamps_ms.ranges)
            and partition.partition in self.partitions
            and all(_is_met(one, partition.topic) for one in self.topics)
        )

    @property
    def earliest_ms(self) -> int | None:
        """The first moment whose records are wanted, if a cluster can be asked for it."""
        first = self.timestamps_ms.ranges[0][0] if self.timestamps_ms.ranges else LEAST
        return first if first >= 0 else None


KEEPS_ALL: Final = RecordFilter()

_ORDERS: Final[Mapping[Comparison, Callable[[str, str], bool]]] = {
    Comparison.LESS: lt,
    Comparison.LESS_OR_EQUAL: le,
    Comparison.GREATER: gt,
    Comparison.GREATER_OR_EQUAL: ge,
}


def _is_met(condition: Condition, topic: str) -> bool:
    if condition.comparison is Comparison.EQUAL:
        return topic in condition.values
    if condition.comparison is Comparison.NOT_EQUAL:
        return topic not in condition.values
    (value,) = condition.values
    assert isinstance(value, str), condition
    # Spark compares text by its bytes in UTF-8, which have the order of code points.
    return _ORDERS[condition.comparison](topic, value)


def _integers(condition: Condition) -> IntegerRanges:
    """Return the offsets, partitions or milliseconds that meet a condition."""
    unit = US_PER_MS if condition.column == "timestamp" else 1
    numbers = [value for value in condition.values if isinstance(value, int)]
    assert len(numbers) == len(condition.values), condition
    # Records have whole milliseconds: a time with a fraction of one equals none.
    equal = IntegerRanges.of((one // unit, one // unit + 1) for one in numbers if one % unit == 0)
    match condition.comparison:
        case Comparison.EQUAL:
            return equal
        case Comparison.NOT_EQUAL:
            return equal.complement()
        case Comparison.LESS:
            return IntegerRanges.of([(LEAST, -(-numbers[0] // unit))])
        case Comparison.LESS_OR_EQUAL:
            return IntegerRanges.of([(LEAST, numbers[0] // unit + 1)])
        case Comparison.GREATER:
            return IntegerRanges.of([(numbers[0] // unit + 1, MOST + 1)])
        case Comparison.GREATER_OR_EQUAL:
            return IntegerRanges.of([(-(-numbers[0] // unit), MOST + 1)])
