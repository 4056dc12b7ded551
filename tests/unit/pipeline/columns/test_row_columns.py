"""The columns of a sink: checked by name and type, their rows sent to the right partitions."""

import pyarrow as pa
import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.producer import partition_for
from ottla.pipeline.columns.header_columns import HEADERS_TYPE
from ottla.pipeline.columns.partitioner import Sticky
from ottla.pipeline.columns.row_columns import NOW, RowColumns, find_row_layout, rows_by_partition
from ottla.pipeline.words import OptionError


def place(batch: pa.RecordBatch, topic: str | None = "t", **counts: int) -> dict[TopicPartition, RowColumns]:
    layout = find_row_layout(batch.schema, topic=topic)
    return dict(rows_by_partition(batch, layout, counts or {"t": 3}, Sticky(4)))


def batch_of(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def values_of(placed: dict[TopicPartition, RowColumns]) -> dict[int, list[bytes]]:
    return {partition.partition: rows.values.to_pylist() for partition, rows in placed.items()}


@pytest.mark.parametrize(
    ("fields", "topic", "name"),
    [
        ({"key": pa.binary()}, "t", "value"),
        ({"value": pa.int32()}, "t", "value"),
        ({"value": pa.dictionary(pa.int32(), pa.string())}, "t", "value"),
        ({"value": pa.binary()}, None, "topic"),
        ({"value": pa.binary(), "topic": pa.int32()}, None, "topic"),
        ({"value": pa.binary(), "key": pa.int64()}, "t", "key"),
        ({"value": pa.binary(), "partition": pa.int64()}, "t", "partition"),
        ({"value": pa.binary(), "timestamp": pa.float64()}, "t", "timestamp"),
        ({"value": pa.binary(), "headers": pa.map_(pa.string(), pa.binary())}, "t", "headers"),
        ({"value": pa.binary(), "headers": pa.list_(pa.string())}, "t", "headers"),
    ],
)
def test_a_wrong_column_is_named(fields: dict[str, pa.DataType], topic: str | None, name: str) -> None:
    with pytest.raises(OptionError) as refused:
        find_row_layout(pa.schema(fields), topic=topic)

    assert refused.value.option == name


def test_a_duplicate_name_is_refused() -> None:
    with pytest.raises(OptionError, match="value: is the name of several columns"):
        find_row_layout(pa.schema([("value", pa.binary()), ("value", pa.binary())]), topic="t")


def test_other_columns_are_ignored_and_the_option_wins_over_the_column() -> None:
    batch = batch_of(offset=pa.array([1]), topic=pa.array([7]), value=pa.array([b"v"]))

    placed = place(batch)

    assert [partition.topic for partition in placed] == ["t"]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_rows_go_where_a_java_producer_sends_their_keys(kind: pa.DataType) -> None:
    words = [f"key-{number}" for number in range(50)]
    column = pa.array([word.encode() for word in words], pa.binary()).cast(kind)

    placed = values_of(place(batch_of(key=column, value=column), t=7))

    for partition, values in placed.items():
        expected = [w.encode() for w in words if partition_for(w.encode(), 7) == partition]
        assert values == expected


def test_rows_of_a_slice_are_its_own() -> None:
    column = pa.array([b"%d" % number for number in range(100)])
    batch = batch_of(key=column, value=column).slice(90, 5)

    placed = values_of(place(batch))

    assert sorted(value for values in placed.values() for value in values) == [
        b"%d" % n for n in range(90, 95)
    ]
    assert all(partition_for(value, 3) == at for at, values in placed.items() for value in values)


def test_rows_without_keys_share_a_partition_and_the_next_batch_has_the_next_one() -> None:
    sticky = Sticky(4)
    batch = batch_of(value=pa.array([b"a", b"b"]))
    layout = find_row_layout(batch.schema, topic="t")

    seen = [rows_by_partition(batch, layout, {"t": 3}, sticky)[0][0].partition for _ in range(6)]

    assert seen == [1, 2, 0, 1, 2, 0]


def test_a_partition_of_a_row_wins_over_its_key() -> None:
    batch = batch_of(
        key=pa.array([b"k", b"k", b"k"]),
        value=pa.array([b"a", b"b", b"c"]),
        partition=pa.array([0, None, 0], pa.int32()),
    )

    placed = values_of(place(batch))

    assert placed == {0: [b"a", b"c"], partition_for(b"k", 3): [b"b"]}


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_nonexistent_partition_is_named(partition: int) -> None:
    batch = batch_of(value=pa.array([b"a"]), partition=pa.array([partition], pa.int32()))

    with pytest.raises(OptionError, match=f"partition: is {partition} in a row, but t has 3"):
        place(batch)


def test_rows_go_to_the_topics_of_their_column() -> None:
    batch = batch_of(topic=pa.array(["a", "b", "a"]), value=pa.array([b"1", b"2", b"3"]))

    placed = place(batch, None, a=1, b=1)

    assert {str(name): rows.values.to_pylist() for name, rows in placed.items()} == {
        "a-0": [b"1", b"3"],
        "b-0": [b"2"],
    }


def test_a_topic_that_is_null_or_unknown_is_refused() -> None:
    for topic in (None, "other"):
        batch = batch_of(topic=pa.array([topic], pa.string()), value=pa.array([b"1"]))

        with pytest.raises(OptionError, match="topic"):
            place(batch, None)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", None])
def test_timestamps_are_moments_whatever_their_unit_and_zone(unit: str, zone: str | None) -> None:
    at_2s = {"s": 2, "ms": 2000, "us": 2_000_999, "ns": 2_000_999_999}[unit]
    column = pa.array([at_2s, None], pa.int64()).cast(pa.timestamp(unit, tz=zone))

    (rows,) = place(batch_of(value=pa.array([b"a", b"b"]), timestamp=column)).values()

    assert rows.timestamps_ms is not None and rows.timestamps_ms.tolist() == [2000, NOW]


def test_a_record_that_was_read_without_a_timestamp_has_none() -> None:
    column = pa.array([-1000, 5000, None], pa.timestamp("us", tz="UTC"))

    (rows,) = place(batch_of(value=pa.array([b"a", b"b", b"c"]), timestamp=column)).values()

    assert rows.timestamps_ms is not None and rows.timestamps_ms.tolist() == [NOW, 5, NOW]


def test_a_time_before_1970_is_refused() -> None:
    batch = batch_of(value=pa.array([b"a"]), timestamp=pa.array([-1], pa.timestamp("us", tz="UTC")))

    with pytest.raises(OptionError, match="timestamp: is before 1970"):
        place(batch)


def test_headers_go_with_their_rows() -> None:
    headers = pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS_TYPE)
    batch = batch_of(
        value=pa.array([b"a", b"b", b"c"]), headers=headers, partition=pa.array([1, 0, 1], pa.int32())
    )

    placed = place(batch)

    rows = placed[TopicPartition("t", 1)]
    assert rows.headers is not None
    assert rows.headers.to_pylist() == [[{"key": "h", "value": b"1"}], []]


def test_without_rows_there_are_no_partitions() -> None:
    assert place(batch_of(value=pa.array([], pa.binary()))) == {}


def test_offsets_of_copied_rows_go_with_their_rows_where_they_are_asked_for() -> None:
    batch = batch_of(
        value=pa.array([b"a", b"b", b"c"]),
        offset=pa.array([7, 8, 10], pa.int64()),
        partition=pa.array([1, 0, 1], pa.int32()),
    )
    layout = find_row_layout(batch.schema, topic="t", with_offsets=True)

    placed = {
        partition.partition: rows.offsets
        for partition, rows in rows_by_partition(batch, layout, {"t": 2}, Sticky(0))
    }

    assert {name: [*offsets] for name, offsets in placed.items() if offsets is not None} == {
        0: [8],
        1: [7, 10],
    }
    assert next(iter(place(batch).values())).offsets is None


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({}, "is a required column"),
        ({"offset": pa.array([1], pa.int32())}, "must be long"),
        ({"offset": pa.array([None], pa.int64())}, "is null in a row"),
    ],
)
def test_copied_rows_without_offsets_are_refused(columns: dict[str, pa.Array], problem: str) -> None:
    batch = batch_of(value=pa.array([b"v"]), **columns)

    with pytest.raises(OptionError, match=f"offset: .*{problem}"):
        layout = find_row_layout(batch.schema, topic="t", with_offsets=True)
        rows_by_partition(batch, layout, {"t": 1}, Sticky(0))
