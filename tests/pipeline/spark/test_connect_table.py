"""Tables of SQLite and PostgreSQL as streams: each row once, and equal rows when a batch is read again."""

import datetime as dt
import json
import sqlite3
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from ottla.pipeline.connect.table_database import TableError, open_database
from ottla.pipeline.connect.table_options import TableOptions
from ottla.pipeline.connect.table_queries import TableQueries
from ottla.pipeline.connect.table_reader import TableReader
from ottla.pipeline.connect.table_source import read_stream
from ottla.pipeline.words import OptionError
from tests.pipeline.spark.postgresql_server import PostgresqlServer, find_programs

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
Batches = list[list[Row]]
BY_BOTH = {
    "mode": "timestamp+incrementing",
    "incrementing.column.name": "id",
    "timestamp.column.name": "at",
    "batch.max.rows": "10",
    "key": "id",
}


def run(frame: DataFrame, checkpoint: str, watch: Callable[[int], None] = lambda _number: None) -> Batches:
    """Return the batches of a query for the present rows; `watch` is called with the number of each."""
    batches: Batches = []

    def note(rows: DataFrame, number: int) -> None:
        batches.append(rows.collect())
        watch(number)

    query = frame.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint)
    assert query.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)
    return batches


def ids(batches: Batches) -> list[list[int]]:
    return [sorted(json.loads(row.value)["id"] for row in batch) for batch in batches]


# ---- SQLite ---------------------------------------------------------------------------------------


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Make a file with 25 rows, a second apart, long ago."""
    connection = sqlite3.connect(tmp_path / "flights.db", isolation_level=None)
    connection.execute(
        "CREATE TABLE flights"
        " (id INTEGER PRIMARY KEY, at TEXT NOT NULL, name TEXT, late BOOLEAN, delay REAL, raw BLOB)"
    )
    insert(connection, 25)
    yield connection
    connection.close()


def insert(connection: sqlite3.Connection, count: int) -> None:
    """Insert rows behind the present ones."""
    (there,) = connection.execute("SELECT count(*) FROM flights").fetchone()
    rows = [(f"{there + i} seconds", f"AA{i}", i % 2, i / 2, b"\x00\xff") for i in range(1, count + 1)]
    connection.executemany(
        "INSERT INTO flights (at, name, late, delay, raw) VALUES (datetime('2013-01-01', ?), ?, ?, ?, ?)",
        rows,
    )


def sqlite_url(tmp_path: Path) -> dict[str, str]:
    return {"connection.url": f"sqlite:{tmp_path / 'flights.db'}", "table": "flights"}


def test_rows_come_in_bounded_batches_and_new_rows_with_the_next_run(
    spark: SparkSession, sqlite: sqlite3.Connection, tmp_path: Path, checkpoint: str
) -> None:
    frame = read_stream(spark, {**sqlite_url(tmp_path), **BY_BOTH})

    first = run(frame, checkpoint)
    insert(sqlite, 3)
    sqlite.execute("UPDATE flights SET at = datetime('2013-01-02'), name = NULL WHERE id = 7")
    second = run(frame, checkpoint)

    assert ids(first) == [list(range(1, 11)), list(range(11, 21)), list(range(21, 26))]
    assert ids(second) == [[7, 26, 27, 28]]
    assert first[0][0].key == "1"
    assert json.loads(first[0][0].value) == {
        "id": 1,
        "at": "2013-01-01 00:00:01",
        "name": "AA1",
        "late": True,
        "delay": 0.5,
        "raw": "AP8=",
    }
    assert json.loads(second[0][-1].value)["name"] is None


def test_a_batch_that_is_read_again_has_the_same_rows(
    spark: SparkSession, sqlite: sqlite3.Connection, tmp_path: Path, checkpoint: str
) -> None:
    """An exactly-once sink may have the batch already, so added rows must not change it."""
    frame = read_stream(spark, {**sqlite_url(tmp_path), **BY_BOTH})

    def crash(number: int) -> None:
        if number == 1:
            raise RuntimeError("died here")

    with pytest.raises(Exception, match="died here"):
        run(frame, checkpoint, crash)
    insert(sqlite, 5)

    assert ids(run(frame, checkpoint)) == [list(range(11, 21)), list(range(21, 31))]


def test_a_table_is_read_whole_once_in_each_run(
    spark: SparkSession, sqlite: sqlite3.Connection, tmp_path: Path, checkpoint: str
) -> None:
    frame = read_stream(spark, {**sqlite_url(tmp_path), "mode": "bulk", "output": "rows"})

    first = run(frame, checkpoint)
    sqlite.execute("DELETE FROM flights WHERE id > 2")
    second = run(frame, checkpoint)

    assert [len(batch) for batch in (*first, *second)] == [25, 2]
    assert second[0][0].asDict() == {
        "id": 1,
        "at": "2013-01-01 00:00:01",
        "name": "AA1",
        "late": True,
        "delay": 0.5,
        "raw": b"\x00\xff",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "fligths"}, "table: fligths does not exist"),
        ({"connection.url": "sqlite:/nowhere/a.db"}, "table flights: unable to open database file"),
        ({"key": "ident"}, "key: names ident, but the columns are id, at"),
        (
            {"incrementing.column.name": "name", "validate.non.null": "false"},
            "incrementing.column.name: name is of type TEXT",
        ),
    ],
)
def test_missing_tables_and_columns_are_reported_before_the_start(
    spark: SparkSession, sqlite: sqlite3.Connection, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises((OptionError, TableError), match=f"^{message}"):
        read_stream(spark, {**sqlite_url(tmp_path), **BY_BOTH, **options})


def test_a_value_that_is_not_of_its_type_stops_the_query(
    spark: SparkSession, sqlite: sqlite3.Connection, tmp_path: Path, checkpoint: str
) -> None:
    sqlite.execute("UPDATE flights SET delay = 'much' WHERE id = 4")

    with pytest.raises(Exception, match="has values in column delay that are not double"):
        run(read_stream(spark, {**sqlite_url(tmp_path), **BY_BOTH}), checkpoint)


def test_another_mode_needs_another_checkpoint(
    spark: SparkSession, sqlite: sqlite3.Connection, tmp_path: Path, checkpoint: str
) -> None:
    run(read_stream(spark, {**sqlite_url(tmp_path), **BY_BOTH}), checkpoint)
    by_id = {"mode": "incrementing", "incrementing.column.name": "id"}

    with pytest.raises(
        Exception, match=r"mode: is incrementing, but the checkpoint was written with timestamp\+incrementing"
    ):
        run(read_stream(spark, {**sqlite_url(tmp_path), **by_id}), checkpoint)


# ---- PostgreSQL -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not there: apt-get install postgresql")
    made = PostgresqlServer(programs)
    yield made
    made.remove()


@pytest.fixture
def postgresql(server: PostgresqlServer) -> Iterator[psycopg.Connection[Any]]:
    """Make a schema with a table of many types, and 25 rows, two for each moment."""
    with psycopg.connect(server.url, user=server.user, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS air CASCADE; CREATE SCHEMA air")
        connection.execute("CREATE DOMAIN air.code AS varchar(3)")
        connection.execute(
            'CREATE TABLE air."Flights%" (id bigserial NOT NULL, at timestamptz NOT NULL, carrier air.code,'
            " gate smallint, fare numeric(10, 2), ratio numeric, late bool, day date, seen timestamp,"
            " raw bytea, path int[], took interval, doc jsonb, who uuid, gone int)"
        )
        connection.execute('ALTER TABLE air."Flights%" DROP COLUMN gone')
        insert_flights(connection, 25)
        yield connection


def insert_flights(connection: psycopg.Connection[Any], count: int) -> None:
    connection.execute(
        'INSERT INTO air."Flights%%"'
        " (at, carrier, gate, fare, ratio, late, day, seen, raw, path, took, doc, who)"
        " SELECT '2013-01-01T00:00:00.000001Z'::timestamptz + i / 2 * interval '1 microsecond', 'UA',"
        " i, i + 0.25, 1e-20, true, '2013-01-01', '2013-01-01 05:00:00.5', '\\x00ff', '{1,2}',"
        " '90 minutes', '{\"a\": 1}', '00000000-0000-0000-0000-000000000001'"
        " FROM generate_series(1, %s) AS i",
        (count,),
    )


def postgresql_url(server: PostgresqlServer) -> dict[str, str]:
    return {"connection.url": server.url, "connection.user": server.user, "table": "air.Flights%"}


def test_types_of_postgresql_are_those_of_spark(
    spark: SparkSession, server: PostgresqlServer, postgresql: psycopg.Connection[Any], checkpoint: str
) -> None:
    postgresql.execute("INSERT INTO air.\"Flights%\" (at) VALUES ('2013-01-01T00:00:00.5Z')")
    options = {**postgresql_url(server), "mode": "incrementing", "incrementing.column.name": "id"}

    (rows,) = run(read_stream(spark, {**options, "output": "rows"}), checkpoint)

    assert rows[0].asDict() | {"at": None} == {
        "id": 1,
        "at": None,
        "carrier": "UA",
        "gate": 1,
        "fare": Decimal("1.25"),
        "ratio": "0.00000000000000000001",
        "late": True,
        "day": dt.date(2013, 1, 1),
        "seen": dt.datetime(2013, 1, 1, 5, 0, 0, 500_000),
        "raw": b"\x00\xff",
        "path": "{1,2}",
        "took": "01:30:00",
        "doc": '{"a": 1}',
        "who": "00000000-0000-0000-0000-000000000001",
        "out_of_range": None,
    }
    assert rows[0].at.timestamp() == 1_356_998_400.000001
    assert set(rows[-1].asDict().values()) == {26, rows[-1].at, None}


ODD_TABLE = (
    "CREATE TABLE air.odd (id int NOT NULL, fare numeric(10, 2), day date, name text, seen timestamp,"
    " at timestamptz)"
)
ODD_ROWS = (
    "INSERT INTO air.odd VALUES (1, 1.50, '2024-01-01', 'a', '2024-01-01', '2024-01-01Z'),"
    " (2, 'NaN', 'infinity', 'b', '0044-03-15 BC', '-infinity'),"
    " (3, NULL, '12024-01-01', 'c', 'infinity', NULL)"
)


def odd_options(server: PostgresqlServer) -> dict[str, str]:
    by_id = {"mode": "incrementing", "incrementing.column.name": "id", "table": "air.odd"}
    return {**postgresql_url(server), **by_id}


def test_values_that_spark_lacks_are_text_in_their_place_and_stop_no_table(
    spark: SparkSession, server: PostgresqlServer, postgresql: psycopg.Connection[Any], checkpoint: str
) -> None:
    postgresql.execute(ODD_TABLE)
    postgresql.execute('ALTER TABLE air.odd ADD COLUMN "it\'s 5%" date')
    postgresql.execute(ODD_ROWS)
    postgresql.execute("UPDATE air.odd SET \"it's 5%\" = 'infinity' WHERE id = 3")
    options = odd_options(server)

    (records,) = run(read_stream(spark, {**options, "key": "day"}), checkpoint)
    (rows,) = run(read_stream(spark, {**options, "output": "rows"}), f"{checkpoint}-rows")

    assert [row.value for row in records] == [
        '{"id":1,"fare":1.50,"day":"2024-01-01","name":"a","seen":"2024-01-01T00:00:00.000",'
        '"at":"2024-01-01T00:00:00.000Z","it\'s 5%":null}',
        '{"id":2,"fare":"NaN","day":"infinity","name":"b","seen":"0044-03-15 00:00:00 BC",'
        '"at":"-infinity","it\'s 5%":null}',
        '{"id":3,"fare":null,"day":"12024-01-01","name":"c","seen":"infinity","at":null,'
        '"it\'s 5%":"infinity"}',
    ]
    assert [row.key for row in records] == ["2024-01-01", "infinity", "12024-01-01"]
    assert [row.out_of_range for row in rows] == [
        None,
        {"fare": "NaN", "day": "infinity", "seen": "0044-03-15 00:00:00 BC", "at": "-infinity"},
        {"day": "12024-01-01", "seen": "infinity", "it's 5%": "infinity"},
    ]
    assert (rows[0].fare, rows[1].fare, rows[1].day) == (Decimal("1.50"), None, None)


def test_values_that_spark_lacks_are_reported_by_row_and_column_or_replaced_as_asked(
    spark: SparkSession, server: PostgresqlServer, postgresql: psycopg.Connection[Any], checkpoint: str
) -> None:
    postgresql.execute(ODD_TABLE)
    postgresql.execute(ODD_ROWS)
    options = odd_options(server)

    with pytest.raises(Exception, match="has 'NaN' in column fare of the row with id = '2', a value"):
        run(read_stream(spark, {**options, "out.of.range": "fail"}), checkpoint)
    found = {}
    for choice in ("null", "clamp"):
        # One option continues from the batch that failed: it may change for that batch.
        place = checkpoint if choice == "null" else f"{checkpoint}-{choice}"
        (rows,) = run(read_stream(spark, {**options, "out.of.range": choice}), place)
        found[choice] = [list(json.loads(row.value).values())[1:] for row in rows]

    first = [1.5, "2024-01-01", "a", "2024-01-01T00:00:00.000", "2024-01-01T00:00:00.000Z"]
    assert found["null"] == [first, [None, None, "b", None, None], [None, None, "c", None, None]]
    last = "9999-12-31T23:59:59.999999"
    assert found["clamp"] == [
        first,
        [None, "9999-12-31", "b", "0001-01-01T00:00:00.000", "0001-01-01T00:00:00.000Z"],
        [None, "9999-12-31", "c", last, None],
    ]


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_a_place_that_spark_lacks_stops_no_table_and_loses_no_row(
    server: PostgresqlServer, postgresql: psycopg.Connection[Any], kind: str, mode: str
) -> None:
    """No clock reaches infinity, so such rows have an order of their own and delay no other rows."""
    postgresql.execute(f"CREATE TABLE air.places (id int NOT NULL, at {kind} NOT NULL)")
    postgresql.execute(
        "INSERT INTO air.places VALUES (1, '2024-01-01Z'), (2, '-infinity'), (3, '0044-03-15 BC'),"
        " (4, '12024-01-01Z'), (5, 'infinity'), (6, '2024-01-02Z')"
    )
    columns = {"timestamp.column.name": "at", "batch.max.rows": "2"}
    if mode != "timestamp":
        columns["incrementing.column.name"] = "id"
    given = {**postgresql_url(server), "table": "air.places", "mode": mode, **columns}
    options = TableOptions.from_options(given)
    reader = TableReader(options)

    found, texts, offset = [], {}, reader.initialOffset()
    for more in ("(7, '2024-01-03Z'), (8, 'infinity')", "(9, '2024-01-04Z')", None):
        reader.prepareForTriggerAvailableNow()
        while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
            rows = [row for part in reader.partitions(offset, end) for row in read_rows(reader, part)]
            found.append([row["id"] for row in rows])
            texts |= {row["id"]: dict(row["out_of_range"] or ()) for row in rows}
            offset = json.loads(json.dumps(end))
        if more is not None:
            postgresql.execute(f"INSERT INTO air.places VALUES {more}")
    reader.stop()

    # Without a number, later rows of an equal time are missed, as in Kafka Connect.
    later = [[8]] if columns.get("incrementing.column.name") else []
    assert found == [[4, 5], [2, 3], [1, 6], *later, [7], [9]]
    zone = "+00" if kind == "timestamptz" else ""
    assert texts[2] == {"at": "-infinity"} and texts[3] == {"at": f"0044-03-15 00:00:00{zone} BC"}
    assert texts[4] == {"at": f"12024-01-01 00:00:00{zone}"} and texts[5] == {"at": "infinity"}
    assert texts[1] == {}


def read_rows(reader: TableReader, partition: Any) -> list[dict[str, Any]]:
    return [row for batch in reader.read(partition) for row in batch.to_pylist()]


def test_settings_of_a_role_cost_no_digits(
    server: PostgresqlServer, postgresql: psycopg.Connection[Any]
) -> None:
    postgresql.execute(
        "CREATE TABLE air.sums AS SELECT 0.1::float8 + 0.2 AS a, ARRAY[0.1::float8 + 0.2] AS b"
    )
    postgresql.execute(f"ALTER ROLE {server.user} SET extra_float_digits = 0")
    options = TableOptions.from_options({**postgresql_url(server), "table": "air.sums", "mode": "bulk"})
    try:
        database = open_database(options)
        found = database.first(TableQueries(options, database.columns()).everything())
        database.close()
    finally:
        postgresql.execute(f"ALTER ROLE {server.user} RESET extra_float_digits")

    assert found == (0.1 + 0.2, "{0.30000000000000004}")


def test_a_restarted_server_is_read_on(
    spark: SparkSession, server: PostgresqlServer, postgresql: psycopg.Connection[Any], checkpoint: str
) -> None:
    """Microseconds count: there are two rows for each moment, and batches of ten."""
    frame = read_stream(spark, {**postgresql_url(server), **BY_BOTH})

    def restart(number: int) -> None:
        if number == 0:
            server.stop()
            server.start()

    batches = run(frame, checkpoint, restart)

    assert ids(batches) == [list(range(1, 11)), list(range(11, 21)), list(range(21, 26))]


def test_a_row_that_is_committed_late_is_read_if_the_delay_lasts(
    spark: SparkSession, server: PostgresqlServer, postgresql: psycopg.Connection[Any], checkpoint: str
) -> None:
    """A transaction may write its time first and commit after a later one: without a delay it is missed."""
    delay = {"timestamp.delay.interval.ms": "3600000"}
    frame = read_stream(spark, {**postgresql_url(server), **BY_BOTH, **delay})
    run(frame, checkpoint)
    with psycopg.connect(server.url, user=server.user) as late:
        late.execute("INSERT INTO air.\"Flights%\" (at) VALUES (now() - interval '2 hours')")
        postgresql.execute("INSERT INTO air.\"Flights%\" (at) VALUES (now() - interval '1 minute')")
        between = run(frame, checkpoint)
        late.commit()

    assert ids(between) == []
    assert ids(run(frame, checkpoint)) == [[26]]


def test_a_password_is_in_no_message(spark: SparkSession, server: PostgresqlServer) -> None:
    options = {**postgresql_url(server), "connection.password": "hunter2", "table": "nowhere", "mode": "bulk"}

    with pytest.raises(OptionError, match=r"^table: nowhere does not exist") as failed:
        read_stream(spark, options)

    assert "hunter2" not in str(failed.value)
