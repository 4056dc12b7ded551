"""Mirrors and jobs with Apache Kafka 4.3.1: a mirror to it and one from it, and jobs."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.jobs.job import JobFile
from ottla.pipeline.jobs.job_reader import read_job_file
from ottla.pipeline.sink.sink_cluster import KafkaSinkCluster
from tests.pipeline.spark.job_runs import run_jobs
from tests.pipeline.spark.mirroring import (
    QUERY_TIMEOUT_S,
    Side,
    mirror_options,
    new_name,
    row_of,
    side_of,
    start,
    write_rows_of_all_kinds,
)
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.topics import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.thorough]


@pytest.fixture
def sides(bootstrap: str, kafka: str) -> Iterator[tuple[Side, Side]]:
    sides = side_of("ottla", bootstrap), side_of("kafka", kafka)
    yield sides
    for side in sides:
        side.client.close()


def test_apache_kafka_and_ottla_mirror_each_other_with_their_groups(
    spark: SparkSession, sides: tuple[Side, Side], tmp_path: Path
) -> None:
    name = new_name()
    topic = f"{name}-rows"
    for side in sides:
        # The default retention would delete rows of 2023 at once.
        side.make(topic, 3, {"retention.ms": "-1", "segment.bytes": "2000000"})
        write_rows_of_all_kinds(side, topic)
        side.make(f"{name}-read")
        side.fill(f"{name}-read", [f"{number}" for number in range(20)])
        side.consume(f"{name}-of-{side.alias}", f"{name}-read", 7, begin="earliest")

    both = (sides, (sides[1], sides[0]))
    jobs = [start(spark, mirror_options(one, other, name), str(tmp_path / one.alias)) for one, other in both]
    assert all(job.query.awaitTermination(QUERY_TIMEOUT_S) for job in jobs)

    for one, other in both:
        copied = [row_of(message) for message in read_topic(other.bootstrap, f"{one.alias}.{topic}")]
        assert copied == [row_of(message) for message in read_topic(one.bootstrap, topic)]
        assert len(copied) == 18
        rest = other.consume(f"{name}-of-{one.alias}", f"{one.alias}.{name}-read", 20)
        assert rest == [f"{number}" for number in range(7, 20)]
        own = {topic, f"{name}-read"}
        assert other.topics(name) == own | {f"{one.alias}.{each}" for each in own}
        sink, group = KafkaSinkCluster(other.client), f"{one.alias}-{other.alias}-{name}"
        record, note = sink.read_record(group), sink.read_completed(group)
        # Without it a query would stop that was not run until its ids were forgotten.
        assert record is not None and note is not None and note.offset == record.offset
    assert [job.status().lag for job in jobs] == [0, 0]


def jobs_of(kafka: str, folder: Path, rows: str, counts: str) -> JobFile:
    """Return jobs from a table to a topic, and from there to counts in another and rows in a lake."""
    path = folder / "jobs.yaml"
    path.write_text(
        dedent(f"""
        name: {rows}
        storage: state
        configuration: {{spark.sql.shuffle.partitions: "2"}}
        jobs:
          table:
            source: {{format: table, connection.url: "sqlite:{folder}/air.db", table: flights,
                     mode: incrementing, incrementing.column.name: id, key: carrier}}
            sink: &rows {{format: ottla, kafka.bootstrap.servers: "{kafka}", topic: {rows},
                     delivery.guarantee: exactly_once}}
            trigger: {{availableNow: true}}
          counts:
            source: &source {{format: ottla, kafka.bootstrap.servers: "{kafka}", subscribe: {rows},
                     startingOffsets: earliest, kafka.isolation.level: read_committed}}
            transform:
              - python: ottla.streams:parse
                arguments: {{schema: "id LONG, carrier STRING, at TIMESTAMP, delay LONG"}}
              - python: ottla.streams:count_and_sum
                arguments: {{time: at, watermark: 1 day, window: 1 hour, by: carrier, sums: delay}}
              - python: ottla.streams:to_records
                arguments: {{key: "carrier, window_start"}}
            sink: {{format: ottla, kafka.bootstrap.servers: "{kafka}", topic: {counts},
                   delivery.guarantee: exactly_once}}
            outputMode: update
            trigger: {{availableNow: true}}
          lake:
            source: *source
            transform: [{{sql: "SELECT string(key) AS carrier, string(value) AS value FROM source"}}]
            sink: {{format: lake, path: "{folder}/lake", partitionBy: carrier}}
            trigger: {{availableNow: true}}
        """)
    )
    return read_job_file(path)


def insert(path: Path, first: int, last: int) -> pd.DataFrame:
    """Insert flights with these numbers, one every ten minutes; return all flights."""
    with sqlite3.connect(path) as air:
        air.execute(
            "CREATE TABLE IF NOT EXISTS flights"
            " (id INTEGER PRIMARY KEY, carrier TEXT, at TEXT, delay INTEGER)"
        )
        for number in range(first, last):
            at = f"2026-01-01T{number // 6:02}:{number % 6}0:00Z"
            air.execute(
                "INSERT INTO flights VALUES (?, ?, ?, ?)", (number, ("AA", "UA")[number % 2], at, number)
            )
        there = pd.read_sql_query("SELECT * FROM flights", air)
    air.close()
    return there


def test_jobs_go_from_a_table_through_apache_kafka_into_windows_and_a_lake(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    rows, counts = make_topic(kafka, partitions=2), make_topic(kafka)
    file = jobs_of(kafka, tmp_path, rows, counts)

    for first, last in ((1, 30), (30, 50)):
        flights = insert(tmp_path / "air.db", first, last)
        run_jobs(file, spark, "table")
        run_jobs(file, spark, "counts", "lake")

    written = [json.loads(message.value() or b"") for message in read_topic(kafka, rows)]
    assert sorted(row["id"] for row in written) == list(range(1, 50))
    table = {message.key(): json.loads(message.value() or b"") for message in read_topic(kafka, counts)}
    found = {
        (one["carrier"], one["window_start"]): (one["count"], one["sum_delay"]) for one in table.values()
    }
    hours = flights.assign(hour=flights["at"].str[:13]).groupby(["carrier", "hour"])["delay"]
    assert found == {
        (carrier, f"{hour}:00:00.000Z"): (len(delays), delays.sum()) for (carrier, hour), delays in hours
    }
    lake = pd.read_parquet(tmp_path / "lake")
    assert sorted(json.loads(value)["id"] for value in lake["value"]) == list(range(1, 50))
