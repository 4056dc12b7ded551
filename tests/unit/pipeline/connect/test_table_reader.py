"""A run of a table's stream reads the rows that were there when it began."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from ottla.pipeline.connect.table_options import TableOptions
from ottla.pipeline.connect.table_reader import TableReader

LIMIT = ReadMaxRows(10)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Make a file with an empty table."""
    connection = sqlite3.connect(tmp_path / "flights.db", isolation_level=None)
    connection.execute("CREATE TABLE flights (id INTEGER PRIMARY KEY)")
    yield connection
    connection.close()


@pytest.fixture
def reader(database: sqlite3.Connection, tmp_path: Path) -> Iterator[TableReader]:
    options = {
        "connection.url": f"sqlite:{tmp_path / 'flights.db'}",
        "table": "flights",
        "mode": "incrementing",
        "incrementing.column.name": "id",
    }
    made = TableReader(TableOptions.from_options(options))
    yield made
    made.stop()


def insert(database: sqlite3.Connection, count: int) -> None:
    database.executemany("INSERT INTO flights DEFAULT VALUES", [()] * count)


def test_a_run_that_begins_with_an_empty_table_takes_no_later_rows(
    reader: TableReader, database: sqlite3.Connection
) -> None:
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()

    insert(database, 5)

    assert reader.latestOffset(start, LIMIT) == start


def test_a_run_whose_table_was_emptied_before_it_takes_no_later_rows(
    reader: TableReader, database: sqlite3.Connection
) -> None:
    insert(database, 5)
    read = reader.latestOffset(reader.initialOffset(), LIMIT)
    database.execute("DELETE FROM flights")
    reader.prepareForTriggerAvailableNow()

    database.execute("INSERT INTO flights VALUES (9)")

    assert read["incrementing"] == 5
    assert reader.latestOffset(read, LIMIT) == read


def test_a_run_without_a_last_batch_reads_later_rows(
    reader: TableReader, database: sqlite3.Connection
) -> None:
    start = reader.initialOffset()

    insert(database, 15)

    assert reader.latestOffset(start, LIMIT)["incrementing"] == 10
