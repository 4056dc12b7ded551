"""`ottla.streams` with faulty rows, and with tables that change."""

import datetime
import json

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.streams import dedup, joins, sessions, state, table, windows
from ottla.pipeline.streams.flights import with_airports
from ottla.pipeline.streams.json_records import parse, to_records
from ottla.pipeline.words import OptionError
from tests.pipeline.topics import fill_keys, make_topic

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
SCHEMA = "carrier STRING, delay LONG"
RECORDS = "key STRING, value STRING, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0)


def records(
    spark: SparkSession, *rows: tuple[str | None, str | None, int, int, int], topic: str = "t"
) -> DataFrame:
    """Return records of (key, value, partition, offset, seconds after noon) each."""
    moments = [(*row[:2], topic, *row[2:4], NOON + datetime.timedelta(seconds=row[4])) for row in rows]
    return spark.createDataFrame(moments, RECORDS)


def test_values_are_parsed_and_a_record_without_one_gives_no_row(spark: SparkSession) -> None:
    given = records(
        spark, ("a", '{"carrier":"UA","delay":3}', 0, 7, 0), ("a", None, 0, 8, 0), ("b", "{}", 0, 9, 0)
    )

    rows = parse(given, schema=SCHEMA, keep="offset").collect()

    assert [tuple(row) for row in rows] == [(7, "UA", 3), (9, None, None)]


@pytest.mark.parametrize("broken", ["no JSON", '{"carrier":"UA","delay":"late"}', "[1"])
def test_a_broken_value_fails_or_is_left_out_as_the_argument_says(spark: SparkSession, broken: str) -> None:
    given = records(spark, (None, broken, 0, 0, 0), (None, '{"carrier":"AA","delay":1}', 0, 1, 0))

    rows = parse(given, schema=SCHEMA, broken="drop").collect()

    assert [tuple(row) for row in rows] == [("AA", 1)]
    with pytest.raises((PySparkException, Py4JError), match="MALFORMED_RECORD"):
        parse(given, schema=SCHEMA).collect()


def test_rows_become_records_with_a_key_and_their_nulls(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("UA", "EWR", None)], "carrier STRING, origin STRING, delay LONG")
    value = '{"carrier":"UA","origin":"EWR","delay":null}'

    assert [tuple(row) for row in to_records(rows).collect()] == [(value,)]
    assert [tuple(row) for row in to_records(rows, key="carrier").collect()] == [("UA", value)]
    both = to_records(rows, key="carrier, delay").collect()
    assert [tuple(row) for row in both] == [('{"carrier":"UA","delay":null}', value)]


def test_the_latest_record_of_a_key_is_its_row_and_a_tombstone_ends_it(spark: SparkSession) -> None:
    given = records(
        spark,
        ("old", "1", 0, 1, 9),
        ("old", "2", 0, 2, 5),  # by offset, whatever its timestamp
        ("gone", "1", 0, 3, 0),
        ("gone", None, 0, 4, 0),
        ("back", None, 0, 5, 0),
        ("back", "3", 0, 6, 0),
        (None, "nobody's", 0, 7, 0),
        ("moved", "1", 0, 900, 0),
        ("moved", "4", 1, 2, 1),  # the topic has a second partition
        ("ended", "1", 0, 901, 0),
        ("ended", None, 1, 3, 1),
    )

    assert {row.key: row.value for row in table.latest(given).collect()} == {
        "old": "2",
        "back": "3",
        "moved": "4",
    }


def test_offsets_of_two_topics_are_not_compared(spark: SparkSession) -> None:
    old = records(spark, ("a", "old", 0, 900, 0), ("gone", "old", 0, 901, 0), topic="t1")
    new = records(spark, ("a", "new", 0, 2, 9), ("gone", None, 0, 3, 9), topic="t2")

    found = table.latest(old.union(new)).collect()

    assert [(row.key, row.value, row.topic) for row in found] == [("a", "new", "t2")]


def test_each_batch_sees_the_table_as_it_is_when_the_batch_begins(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    flights, airports = make_topic(bootstrap), make_topic(bootstrap)
    flight = {
        "carrier": "UA",
        "dest": "ORD",
        "dep_delay": 1,
        "minute": 0,
        "time_hour": "2013-01-01T10:00:00Z",
    }
    fill_keys(bootstrap, flights, [("UA", json.dumps(flight).encode())] * 3)
    name = iter(["Orchard Field", "O'Hare", None, "never seen"])
    seen: list[str | None] = []

    def rename() -> None:
        there = next(name)
        value = None if there is None else json.dumps({"faa": "ORD", "name": there}).encode()
        fill_keys(bootstrap, airports, [("ORD", value)])

    def keep(batch: DataFrame, _batch_id: int) -> None:
        seen.extend(row.dest_name for row in batch.collect())
        rename()

    rename()
    given = {"kafka.bootstrap.servers": bootstrap}
    one_each = {"subscribe": flights, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1"}
    joined = with_airports(
        spark.readStream.format("ottla").options(**given, **one_each).load(),
        table.records(spark, {**given, "subscribe": airports}),
    )
    writer = joined.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)

    assert seen == ["Orchard Field", "O'Hare", None]


def test_invalid_arguments_are_rejected_by_name(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("UA", 1, NOON)], "carrier STRING, count LONG, at TIMESTAMP")
    times = {"time": "at", "watermark": "1 hour"}

    with pytest.raises(OptionError, match="by: would add a second column count"):
        windows.count_and_sum(rows, **times, window="1 hour", by="count")
    with pytest.raises(OptionError, match="slide: must be a number and a unit"):
        windows.count_and_sum(rows, **times, window="1 hour", slide="often")
    with pytest.raises(OptionError, match="gap: must be longer than 0"):
        sessions.sessions(rows, **times, gap="0 hours", by="carrier")
    with pytest.raises(OptionError, match="key: names 'plane'"):
        dedup.once(rows, **times, key="plane")
    with pytest.raises(OptionError, match="prefix: would add a second column at"):
        joins.with_table(rows, rows, key="carrier", table_key="carrier", prefix="")
    with pytest.raises(OptionError, match="table_key: has 2 columns, but key has 1"):
        joins.with_table(rows, rows, key="carrier", table_key="carrier, count")
    with pytest.raises(OptionError, match="table: has no column key"):
        table.latest(rows)
    with pytest.raises(OptionError, match="schema: "):
        parse(rows.selectExpr("carrier AS value"), schema="carrier, delay")
    with pytest.raises(OptionError, match=r"stateStore.providerClass: must be .*RocksDB"):
        state.streaks(rows, by="carrier", value="count", order="count", over="1", length="3")
