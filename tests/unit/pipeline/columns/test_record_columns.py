"""The batch that Spark gets: it has exactly the connector's schema, and timestamps in microseconds."""

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.record_columns import FIELDS, RecordColumns, to_record_batch, with_timestamps_in
from tests.unit.pipeline.columns.fetches import open_all

PARTITION = TopicPartition("flights", 2)
# The schema of Spark's Kafka connector.
OF_THE_CONNECTOR = types.StructType(
    [
        types.StructField("key", types.BinaryType()),
        types.StructField("value", types.BinaryType()),
        types.StructField("topic", types.StringType()),
        types.StructField("partition", types.IntegerType()),
        types.StructField("offset", types.LongType()),
        types.StructField("timestamp", types.TimestampType()),
        types.StructField("timestampType", types.IntegerType()),
        types.StructField(
            "headers",
            types.ArrayType(
                types.StructType(
                    [
                        types.StructField("key", types.StringType()),
                        types.StructField("value", types.BinaryType()),
                    ]
                )
            ),
        ),
    ]
)


def columns_of(*timestamps_ms: int) -> RecordColumns:
    rows = [(b"k", b"v", timestamp_ms, (("h", b"1"),)) for timestamp_ms in timestamps_ms]
    columns = open_all(bytes(build_batch(rows, base_offset=5)), start=5).columns
    assert columns is not None
    return columns


def test_the_schema_is_sparks_own() -> None:
    batch = to_record_batch(columns_of(1), PARTITION, list(FIELDS))

    assert batch.schema.equals(to_arrow_schema(OF_THE_CONNECTOR, timezone="UTC"), check_metadata=True)


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([], []),
        ([(-(2**63), 2**63)], [5, 6, 7, 8]),
        ([(-1, 0)], [7]),
        ([(2, 9), (10, 11)], [5, 8]),
        ([(-(2**63), 10), (11, 2**63)], [6, 7, 8]),
    ],
)
def test_records_of_some_times_keep_all_their_columns(ranges: list[tuple[int, int]], left: list[int]) -> None:
    columns = columns_of(10, 1500, -1, 2)

    batch = to_record_batch(with_timestamps_in(columns, ranges), PARTITION, list(FIELDS))

    batch.validate(full=True)
    whole = to_record_batch(columns, PARTITION, list(FIELDS)).to_pylist()
    assert batch.to_pylist() == [row for row in whole if row["offset"] in left]


def test_every_column_has_its_values() -> None:
    batch = to_record_batch(columns_of(1500, -1), PARTITION, list(FIELDS))

    batch.validate(full=True)
    assert [str(moment) for moment in batch.column("timestamp").cast(pa.string()).to_pylist()] == [
        "1970-01-01 00:00:01.500000Z",
        "1969-12-31 23:59:59.999000Z",
    ]
    assert batch.drop_columns(["timestamp"]).to_pylist() == [
        {
            "key": b"k",
            "value": b"v",
            "topic": "flights",
            "partition": 2,
            "offset": offset,
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"1"}],
        }
        for offset in (5, 6)
    ]


def test_fields_come_in_the_order_that_is_asked_for() -> None:
    batch = to_record_batch(columns_of(1), PARTITION, ["offset", "value"])

    assert batch.schema.names == ["offset", "value"]


@pytest.mark.parametrize("timestamp_ms", [2**63 - 1, -(2**63), (2**63 - 1) // 1000 + 1])
def test_a_moment_that_microseconds_cannot_hold_is_named(timestamp_ms: int) -> None:
    with pytest.raises(KafkaError, match=r"offset 5 .*: read with a schema without the column") as refused:
        to_record_batch(columns_of(timestamp_ms), PARTITION, ["timestamp"])

    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.slow
def test_reading_imports_no_pandas() -> None:
    code = """
import sys
from ottla.logstore.record import build_batch
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.fetched_batches import open_fetched
from ottla.pipeline.columns.record_columns import FIELDS, to_record_batch
data = build_batch([(b"k", None, 1, (("h", b"1"),)), (None, b"v", 1, ())])
fetched = open_fetched(bytes(data), aborted=(), read_committed=False, start=0, end=2, with_headers=True)
assert len(to_record_batch(fetched.columns, TopicPartition("flights", 2), list(FIELDS))) == 2
print("pandas" in sys.modules)
"""

    output = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True
    ).stdout

    assert output == "False\n"
