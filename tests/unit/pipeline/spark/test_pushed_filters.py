"""Filters that Spark pushes become ranges of offsets if they restrict them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.record_filter import KEEPS_ALL
from ottla.pipeline.source.where_option import read_where
from ottla.pipeline.spark.pushed_filters import to_record_filter

OFFSET, PARTITION, TOPIC, TIMESTAMP = ("offset",), ("partition",), ("topic",), ("timestamp",)
TEN = datetime(2026, 11, 27, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pushed", "where"),
    [
        ([GreaterThanOrEqual(OFFSET, 5)], "offset >= 5"),
        ([GreaterThan(OFFSET, 5), LessThan(OFFSET, 9)], "offset > 5 AND offset < 9"),
        ([LessThanOrEqual(OFFSET, 5)], "offset <= 5"),
        ([EqualTo(OFFSET, 5)], "offset = 5"),
        ([EqualNullSafe(PARTITION, 1)], "partition = 1"),
        ([In(PARTITION, (0, 2))], "partition IN (0, 2)"),
        ([Not(In(PARTITION, (0, 2)))], "partition NOT IN (0, 2)"),
        ([Not(EqualTo(TOPIC, "a"))], "topic <> 'a'"),
        ([Not(Not(EqualTo(TOPIC, "a")))], "topic = 'a'"),
        ([In(TOPIC, ("a", "b"))], "topic IN ('a', 'b')"),
        ([Not(LessThan(OFFSET, 5))], "offset >= 5"),
        ([Not(LessThanOrEqual(OFFSET, 5))], "offset > 5"),
        ([Not(GreaterThan(OFFSET, 5))], "offset <= 5"),
        ([Not(GreaterThanOrEqual(OFFSET, 5))], "offset < 5"),
        ([GreaterThanOrEqual(TIMESTAMP, TEN)], "timestamp >= '2026-11-27T10:00:00Z'"),
        (
            [LessThan(TIMESTAMP, TEN.astimezone(timezone(timedelta(hours=2))) + timedelta(microseconds=1))],
            "timestamp < '2026-11-27T10:00:00.000001Z'",
        ),
        # A filter that restricts nothing leaves the others as they are.
        ([IsNotNull(OFFSET), EqualTo(("value",), b"v"), EqualTo(OFFSET, 5)], "offset = 5"),
    ],
)
def test_a_filter_means_the_same_as_its_text(pushed: list[Filter], where: str) -> None:
    assert to_record_filter(pushed) == read_where(where)


@pytest.mark.parametrize(
    "pushed",
    [
        IsNotNull(OFFSET),
        Not(IsNotNull(OFFSET)),
        EqualTo(OFFSET, None),
        EqualNullSafe(OFFSET, None),
        In(OFFSET, (5, None)),
        Not(In(OFFSET, (5, None))),
        In(OFFSET, ()),
        In(OFFSET, tuple(range(1001))),
        EqualTo(OFFSET, "5"),
        EqualTo(OFFSET, True),
        EqualTo(TOPIC, 5),
        LessThan(TIMESTAMP, datetime(2026, 11, 27, 10)),
        EqualTo(("headers", "offset"), 5),
        EqualTo(("value",), b"v"),
        StringStartsWith(TOPIC, "a"),
        Not(StringStartsWith(TOPIC, "a")),
    ],
)
def test_other_filters_are_left_to_spark(pushed: Filter) -> None:
    assert to_record_filter([pushed]) == KEEPS_ALL


def test_two_filters_keep_what_both_keep() -> None:
    both = read_where("topic < 'c' AND offset > 3") & read_where(
        "topic > 'a' AND offset < 5 AND partition = 1"
    )

    assert both.offsets == read_where("offset = 4").offsets
    partitions = [TopicPartition(topic, number) for topic in "abc" for number in (0, 1)]
    assert [str(one) for one in partitions if both.keeps(one)] == ["b-1"]
