"""The option `where`: its meaning, and the texts that are refused."""

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.integer_ranges import ALL, LEAST, MOST
from ottla.pipeline.source.record_filter import KEEPS_ALL, RecordFilter
from ottla.pipeline.source.where_option import MAX_VALUES, read_where
from ottla.pipeline.words import OptionError

TEN_MS = 1_795_773_600_000  # 2026-11-27T10:00:00Z
UP = MOST + 1


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("offset >= 199990", [(199990, UP)]),
        ("OFFSET>199990", [(199991, UP)]),
        ("`offset` < 5", [(LEAST, 5)]),
        ("offset <= 5", [(LEAST, 6)]),
        ("offset = 5", [(5, 6)]),
        ("5 == offset", [(5, 6)]),
        ("5 < offset", [(6, UP)]),
        ("5 >= offset", [(LEAST, 6)]),
        ("offset != 5", [(LEAST, 5), (6, UP)]),
        ("offset <> - 5", [(LEAST, -5), (-4, UP)]),
        ("offset IN (9, 3, 4, 3)", [(3, 5), (9, 10)]),
        ("offset not in (9, 3)", [(LEAST, 3), (4, 9), (10, UP)]),
        ("offset between 3 and 9", [(3, 10)]),
        ("offset BETWEEN 3 AND 9 AND offset <> 4", [(3, 4), (5, 10)]),
        ("((offset > 3) and (offset > 4 AND (offset < 9)))", [(5, 9)]),
        ("offset > 9 AND offset < 3", []),
        ("offset > 9223372036854775807", []),
        ("offset <= 18446744073709551615", [(LEAST, UP)]),
    ],
)
def test_offsets_are_ranges(text: str, ranges: list[tuple[int, int]]) -> None:
    assert list(read_where(text).offsets.ranges) == ranges


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("timestamp >= '2026-11-27T10:00:00Z'", [(TEN_MS, UP)]),
        ("timestamp > '2026-11-27 10:00:00Z'", [(TEN_MS + 1, UP)]),
        ("timestamp < TIMESTAMP '2026-11-27T11:00+01:00'", [(LEAST, TEN_MS)]),
        ("TIMESTAMP '2026-11-27T10:00:00Z' >= timestamp", [(LEAST, TEN_MS + 1)]),
        (f"timestamp = {TEN_MS}", [(TEN_MS, TEN_MS + 1)]),
        # Records have milliseconds: a fraction of one lies between two.
        ("timestamp >= '2026-11-27T10:00:00.000001Z'", [(TEN_MS + 1, UP)]),
        ("timestamp > '2026-11-27T10:00:00.000001Z'", [(TEN_MS + 1, UP)]),
        ("timestamp < '2026-11-27T10:00:00.000001Z'", [(LEAST, TEN_MS + 1)]),
        ("timestamp <= '2026-11-27T10:00:00.000001Z'", [(LEAST, TEN_MS + 1)]),
        ("timestamp = '2026-11-27T10:00:00.000001Z'", []),
        ("timestamp >= '1969-12-31T23:59:59.999Z'", [(-1, UP)]),
    ],
)
def test_timestamps_are_ranges_of_milliseconds(text: str, ranges: list[tuple[int, int]]) -> None:
    assert list(read_where(text).timestamps_ms.ranges) == ranges


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("topic = 'b'", ["b-0", "b-1"]),
        ('topic = "b"', ["b-0", "b-1"]),
        ("topic IN ('a', 'c')", ["a-0", "a-1", "c-0", "c-1"]),
        ("topic <> 'b'", ["a-0", "a-1", "c-0", "c-1"]),
        ("topic NOT IN ('a', 'b')", ["c-0", "c-1"]),
        ("topic > 'a' AND topic < 'c'", ["b-0", "b-1"]),
        ("topic BETWEEN 'a' AND 'b' AND partition = 1", ["a-1", "b-1"]),
        ("'b' <= topic", ["b-0", "b-1", "c-0", "c-1"]),
        ("topic = 'it''s'", []),
        ("partition < 1", ["a-0", "b-0", "c-0"]),
        ("partition IN (1, 7) AND offset >= 5", ["a-1", "b-1", "c-1"]),
        ("offset >= 5 AND offset < 5", []),
        ("timestamp < 5 AND timestamp > 5", []),
    ],
)
def test_partitions_without_a_wanted_record_are_left_out(text: str, kept: list[str]) -> None:
    partitions = [TopicPartition(topic, number) for topic in "abc" for number in (0, 1)]

    found = read_where(text)

    assert [str(one) for one in partitions if found.keeps(one)] == kept


def test_a_first_moment_is_known_only_where_a_cluster_can_be_asked_for_it() -> None:
    assert read_where("timestamp >= 5 AND timestamp <> 5").earliest_ms == 6
    assert read_where("timestamp >= -5").earliest_ms is None  # negative times stand for ends of logs
    assert read_where("timestamp <= 5").earliest_ms is None
    assert (KEEPS_ALL.earliest_ms, KEEPS_ALL.offsets) == (None, ALL)
    assert RecordFilter.of([]) == KEEPS_ALL


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends where a column is expected"),
        ("offset", "ends where a comparison is expected"),
        ("offset >=", "ends where a value is expected"),
        ("offset >= 5 AND", "ends where a column is expected"),
        (
            "offset >= 5 OR offset < 3",
            "has OR, which only the query can use: here conditions are joined by AND",
        ),
        ("NOT offset = 5", "has NOT, which only the query can use"),
        ("topic LIKE 'a%'", "has LIKE, which only the query can use"),
        ("topic IS NOT NULL", "has IS, which only the query can use"),
        ("offset >= 5 offset < 3", "has 'offset' where AND is expected"),
        ("(offset >= 5", "ends where AND is expected"),
        ("offset >= 5)", "has ')' where AND is expected"),
        ("offset IN ()", "has ')' where a value is expected"),
        ("offset IN (1 2)", "has '2' where ) is expected"),
        ("offset <=> 5", "has '<=>' where a comparison is expected"),
        ("offset >= partition", "has 'partition' where a value is expected"),
        ("offset >= 5.5", "cannot be read at '5.5'"),
        ("offset >= 1e3", "cannot be read at '1e3'"),
        ("offset >= '5'", "compares offset with '5', which is not a whole number"),
        ("offset >= 123456789012345678901", "does not fit into 64 bits"),
        ("offset >= 5; drop", "cannot be read at '; drop'"),
        ("topic = 5", "compares topic with '5', which is not text"),
        ("topic = 'a", "cannot be read at"),
        ("value = 'a'", "names 'value'; topic, partition, offset, timestamp can be filtered here"),
        ("timestampType = 0", "names 'timestampType'"),
        ("timestamp >= '2026-11-27T10:00:00'", "a time with its zone is expected"),
        ("timestamp >= '2026-13-27T10:00:00Z'", "a time with its zone is expected"),
        ("timestamp >= '2026-11-27T10:00:00.1234567Z'", "a time with its zone is expected"),
        (f"offset IN ({', '.join(map(str, range(MAX_VALUES + 1)))})", "has more than 1000 values"),
        ("(" * 900_000, "ends where a column is expected"),
        (" " * 1_000_001, "at most 1000000 are allowed"),
    ],
)
def test_invalid_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        read_where(text)

    assert refused.value.option == "where"
    assert message in refused.value.problem
