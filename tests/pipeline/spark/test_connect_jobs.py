"""Connectors as jobs of one file, side by side: a table into a lake, and a topic loaded."""

import json
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.jobs.runner import run
from tests.pipeline.topics import fill, make_topic
from tests.unit.pipeline.jobs.job_texts import read

pytestmark = pytest.mark.slow


def test_a_table_and_a_topic_become_parquet(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, [b"%d" % number for number in range(20)])
    with sqlite3.connect(tmp_path / "air.db") as air:
        air.execute("CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT)")
        air.executemany("INSERT INTO flights (carrier) VALUES (?)", [("AA",), ("UA",)] * 10)
    air.close()
    file = read(
        tmp_path,
        f"""
        name: air
        storage: state
        jobs:
          flights:
            source: {{format: table, connection.url: "sqlite:{tmp_path}/air.db", table: flights,
                     mode: incrementing, incrementing.column.name: id, output: rows}}
            transform: [{{sql: "SELECT id * 2 AS twice, carrier FROM source"}}]
            sink: {{format: lake, path: "{tmp_path}/flights", partitionBy: carrier}}
            trigger: {{availableNow: true}}
          archive:
            load: {{kafka.bootstrap.servers: "{bootstrap}", subscribe: {topic}, path: "{tmp_path}/archive",
                   value.format: string}}
        """,
    )

    statuses = run(file, session=spark)

    assert {one.job: (one.state.value, one.cause) for one in statuses} == {
        "flights": ("FINISHED", None),
        "archive": ("FINISHED", None),
    }
    flights = pd.read_parquet(tmp_path / "flights")
    assert sorted(flights["twice"]) == [number * 2 for number in range(1, 21)]
    assert sorted(flights["carrier"].unique()) == ["AA", "UA"]
    assert sorted(int(value) for value in pd.read_parquet(tmp_path / "archive")["value"]) == list(range(20))
    manifest = json.loads((tmp_path / "archive" / "batch=0" / "_batch.json").read_text())
    assert manifest["progress"][topic]["0"] == 20
