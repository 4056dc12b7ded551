"""Rows as JSON and keys, and back: a record has all of its row, for all types of Spark."""

import json

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from ottla.pipeline.connect.record_mapping import RecordMapping
from ottla.pipeline.connect.record_mapping import to_records as mapped
from ottla.pipeline.row_texts import as_text, column
from ottla.pipeline.streams import dedup, joins, sessions, windows
from ottla.pipeline.streams.json_records import parse, to_records

pytestmark = pytest.mark.slow

TIMES = (
    "2024-02-28 16:47:00.123456",
    "2024-02-28 16:47:00.123",
    "2024-02-28 16:47:00",
    "1969-12-31 23:59:59.999999",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
)
# One column each; `t` is a time without a zone.
VALUES = {
    "a.b": "TIMESTAMP(t || 'Z')",
    "a`b": "to_timestamp_ntz(t)",
    'a "b" c': "DATE(t)",
    "parts": "struct(TIMESTAMP(t || 'Z') AS `x.y`, array(to_timestamp_ntz(t), NULL) AS times)",
    "map": "map('k', TIMESTAMP(t || 'Z'), 'none', NULL)",
    "list": "array(map('k', struct(TIMESTAMP(t || 'Z') AS at)))",
    "none": "CAST(NULL AS STRUCT<at: TIMESTAMP>)",
    "no_map": "CAST(NULL AS MAP<STRING, TIMESTAMP>)",
    "raw": "x'00ff'",
    "money": "CAST('99999999999999.98' AS DECIMAL(16, 2))",
    "tiny": "CAST('0.0000000001' AS DECIMAL(38, 20))",
    "nan": "CAST('NaN' AS DOUBLE)",
    "much": "CAST('-Infinity' AS FLOAT)",
    "number": "9223372036854775807",
    "text": "'\"ä\\n'",
    "yes": "true",
}
IN_A_MAP = "map(TIMESTAMP(t || 'Z'), 1), map(DATE(t), 1), map(x'00ff', 1), map(struct(1 AS a), 1)"


def in_texts(rows: DataFrame) -> list[Row]:
    """Return the rows as texts that Spark casts: Python lacks year 1 in some time zones, and NaN != NaN."""
    return rows.select(*[column(name).cast("string").alias(name) for name in rows.columns]).collect()


def test_a_row_of_any_type_comes_back_from_its_record_and_a_record_stays_as_it_is(
    spark: SparkSession,
) -> None:
    times = spark.createDataFrame([(time,) for time in TIMES], "t STRING")
    shown = [f"{value} AS `{name.replace('`', '``')}`" for name, value in VALUES.items()]
    rows = times.selectExpr(*shown)
    schema = ", ".join(
        f"`{part.name.replace('`', '``')}` {part.dataType.simpleString()}" for part in rows.schema.fields
    ).replace("x.y:", "`x.y`:")

    records = to_records(rows)
    back = parse(records, schema=schema)

    values = [json.loads(row.value) for row in records.collect()]
    assert [one["a.b"] for one in values] == [
        "2024-02-28T16:47:00.123456Z",
        "2024-02-28T16:47:00.123Z",
        "2024-02-28T16:47:00.000Z",
        "1969-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999999Z",
    ]
    assert [one["parts"]["times"][0] + "Z" for one in values] == [one["a.b"] for one in values]
    assert in_texts(back) == in_texts(rows)
    assert to_records(back).collect() == records.collect()
    assert mapped(rows, RecordMapping()).collect() == records.collect()


def test_keys_of_maps_are_readable_text(spark: SparkSession) -> None:
    rows = spark.sql(f"SELECT {IN_A_MAP} FROM (SELECT '2024-02-28 16:47:00.123456' AS t)").toDF(*"abcd")

    assert json.loads(to_records(rows).collect()[0].value) == {
        "a": {"2024-02-28T16:47:00.123456Z": 1},
        "b": {"2024-02-28": 1},
        "c": {"AP8=": 1},
        "d": {'{"a":1}': 1},
    }


def test_two_moments_never_share_a_key_and_a_wall_time_is_not_moved(spark: SparkSession) -> None:
    """New York sets its clocks back at 06:00 in UTC, and forward from 02:00 to 03:00."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = spark.sql(
            "SELECT TIMESTAMP'2024-11-03 05:30:00Z' AS a, TIMESTAMP'2024-11-03 06:30:00Z' AS b,"
            " TIMESTAMP_NTZ'2024-03-10 02:30:00.5' AS c, x'00ff' AS d"
        )
        (texts,) = rows.select(*[as_text(rows, name) for name in rows.columns]).collect()
        value = json.loads(to_records(rows).collect()[0].value)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert tuple(texts) == (
        "2024-11-03 01:30:00",
        "2024-11-03 01:30:00-05:00",
        "2024-03-10 02:30:00.5",
        b"\x00\xff",
    )
    assert (value["a"], value["b"]) == ("2024-11-03T01:30:00.000-04:00", "2024-11-03T01:30:00.000-05:00")
    assert value["c"] == "2024-03-10T02:30:00.500"


def test_names_with_dots_are_columns_to_all_functions(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'k' AS `a.key`, TIMESTAMP'2024-01-01' AS `the.time`, 3 AS `a.b`, x'00ff' AS raw")
    times = {"time": "the.time", "watermark": "1 hour"}

    assert to_records(rows, key="a.key").collect()[0].key == "k"
    assert to_records(rows, key="raw").collect()[0].key == b"\x00\xff"
    counted = windows.count_and_sum(rows, **times, window="1 hour", by="a.key", sums="a.b")
    assert counted.collect()[0]["sum_a.b"] == 3
    assert sessions.sessions(rows, **times, gap="1 hour", by="a.key", sums="a.b").collect()[0]["sum_a.b"] == 3
    assert dedup.once(rows, **times, key="a.key").columns == rows.columns
    joined = joins.with_table(rows, rows, key="a.key", table_key="a.key")
    assert joined.collect()[0]["table_a.b"] == 3
