"""Resets of offsets without a cluster: each target, resets that are impossible, and the files of plans."""

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.group_offsets import (
    Change,
    LogBound,
    PartitionFacts,
    ShiftBy,
    Target,
    ToFile,
    ToOffset,
    ToTime,
    parse_partitions,
    parse_plan,
    plan_reset,
    plan_text,
)

ORDERS = TopicPartition("orders", 0)
# Committed at 7 in a log of 5 to 10; never committed; an empty log.
AT_7 = PartitionFacts(7, 5, 10)
NEVER = PartitionFacts(None, 5, 10)
EMPTY_LOG = PartitionFacts(None, 4, 4)


# As `kafka-consumer-groups --reset-offsets` of Apache Kafka 4.3.1 (tests/compat/java/test_reset_offsets.py).
@pytest.mark.parametrize(
    ("target", "facts", "after", "is_warned"),
    [
        (LogBound.EARLIEST, AT_7, 5, False),
        (LogBound.LATEST, AT_7, 10, False),
        (LogBound.CURRENT, AT_7, 7, False),
        (LogBound.CURRENT, NEVER, 10, False),
        (LogBound.CURRENT, PartitionFacts(2, 5, 10), 2, False),
        (ToOffset(8), NEVER, 8, False),
        (ToOffset(5), AT_7, 5, False),
        (ToOffset(10), AT_7, 10, False),
        (ToOffset(11), AT_7, 10, True),
        (ToOffset(4), AT_7, 5, True),
        (ToOffset(-1), AT_7, 5, True),
        (ToOffset(0), EMPTY_LOG, 4, True),
        (ShiftBy(2), AT_7, 9, False),
        (ShiftBy(-2), AT_7, 5, False),
        (ShiftBy(0), AT_7, 7, False),
        (ShiftBy(100), AT_7, 10, True),
        (ShiftBy(-100), AT_7, 5, True),
        (ToTime(1000), PartitionFacts(7, 5, 10, 6), 6, False),
        (ToTime(1000), AT_7, 10, True),
        (ToTime(1000), EMPTY_LOG, 4, True),
        (ToFile({"g": {ORDERS: 9}}), AT_7, 9, False),
        (ToFile({"g": {ORDERS: 99}}), AT_7, 10, True),
        (ToFile({"g": {ORDERS: 1}}), NEVER, 5, True),
    ],
)
def test_each_target_of_a_reset_gives_its_offset(
    target: Target, facts: PartitionFacts, after: int, is_warned: bool
) -> None:
    [change] = plan_reset("g", target, {ORDERS: facts})

    assert (change.before, change.after, change.warning is not None) == (facts.committed, after, is_warned)
    assert change.warning is None or change.warning.startswith("orders-0: ")


def test_a_partition_without_a_commit_cannot_be_shifted() -> None:
    with pytest.raises(ValueError, match="orders-0 cannot be shifted: group g has no committed offset there"):
        plan_reset("g", ShiftBy(1), {ORDERS: NEVER})


def test_a_plan_is_sorted_by_partition() -> None:
    facts = {TopicPartition("b", 0): AT_7, TopicPartition("a", 10): AT_7, TopicPartition("a", 2): AT_7}

    places = [one.partition for one in plan_reset("g", LogBound.EARLIEST, facts)]

    assert places == [("a", 2), ("a", 10), ("b", 0)]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("orders", ("orders", None)),
        ("orders:0", ("orders", [0])),
        ("orders:2,0,2", ("orders", [0, 2])),
    ],
)
def test_topics_are_parsed_with_and_without_partitions(
    text: str, parsed: tuple[str, list[int] | None]
) -> None:
    assert parse_partitions(text) == parsed


@pytest.mark.parametrize(
    "text", ["", ":0", "orders:", "orders:a", "orders:-1", "orders:0:1", "orders:0,", "orders:99999999999"]
)
def test_invalid_partitions_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not TOPIC"):
        parse_partitions(text)


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_for_one_group_need_not_name_it() -> None:
    short = parse_plan("orders,0,5\norders,1,7\r\n\n", ["g"])

    assert short == {"g": {ORDERS: 5, TopicPartition("orders", 1): 7}}
    assert parse_plan("g,orders,0,5\nother,orders,0,9\n", ["g"])["g"] == {ORDERS: 5}


def test_a_file_for_several_groups_names_them() -> None:
    plan = parse_plan('g,orders,0,5\n"a, b",orders,0,-1\n', ["g", "a, b"])

    assert plan == {"g": {ORDERS: 5}, "a, b": {ORDERS: -1}}


def test_kafkas_quotes_around_long_names_are_read() -> None:
    assert parse_plan('"a-topic-of-more-than-24-letters",0,5', ["g"]) == {
        "g": {TopicPartition("a-topic-of-more-than-24-letters", 0): 5}
    }


@pytest.mark.parametrize(
    ("text", "groups", "words"),
    [
        ("orders,0", ["g"], "Line 1 is not topic,partition,offset"),
        ("orders,0,1", ["g", "h"], "Line 1 is not group,topic,partition,offset"),
        ("orders,0,1\norders,x,1", ["g"], "Line 2 has no topic"),
        ("orders,0,1\norders,-1,1", ["g"], "Line 2 has no topic"),
        ("orders,0,1.5", ["g"], "Line 1 has no topic"),
        ("orders,0,9999999999999999999", ["g"], "Line 1 has no topic"),
        ("orders,2147483648,1", ["g"], "Line 1 has no topic"),
        (",0,1", ["g"], "Line 1 has no topic"),
        ("orders,0,1\norders,0,2", ["g"], "Line 2 names orders-0 again"),
        ("x" * 200_000, ["g"], "Line 1 is not CSV"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(text: str, groups: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_plan(text, groups)


@pytest.mark.parametrize("groups", [["g"], ["g", 'with "quotes", and commas']])
def test_an_exported_file_can_be_read(groups: list[str]) -> None:
    changes = [Change(ORDERS, None, 3), Change(TopicPartition("payments", 2), 4, 2**62)]

    text = plan_text(dict.fromkeys(groups, changes))

    assert parse_plan(text, groups) == {
        group: {one.partition: one.after for one in changes} for group in groups
    }
    assert text.startswith("orders,0,3\n" if len(groups) == 1 else "g,orders,0,3\n")
