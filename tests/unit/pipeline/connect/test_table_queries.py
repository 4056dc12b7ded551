"""Statements on a real SQLite database: they select the new rows, in order, and no more than asked for."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from ottla.pipeline.connect.table_columns import TableColumn, postgresql_column, sqlite_column
from ottla.pipeline.connect.table_options import TableOptions
from ottla.pipeline.connect.table_position import START, Position, from_offset, to_offset
from ottla.pipeline.connect.table_queries import Statement, TableQueries
from ottla.pipeline.words import OptionError

URL = {"connection.url": "sqlite:/none"}
BY_ID = {**URL, "mode": "incrementing", "incrementing.column.name": "id"}
BY_TIME = {**URL, "mode": "timestamp", "timestamp.column.name": "at"}
BY_BOTH = {**BY_ID, **BY_TIME, "mode": "timestamp+incrementing"}
COLUMNS = [sqlite_column("id", "INTEGER", False), sqlite_column("at", "TEXT", False)]
DAY_MS = 86_400_000


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """Make six rows, two of which share a time that a third writes differently."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    times = ["1970-01-02", "1970-01-03 00:00:00", "1970-01-03T00:00:00.000Z", "1970-01-04", "1970-01-05"]
    connection.executemany("INSERT INTO rows (at) VALUES (?)", [(time,) for time in times])
    connection.execute("INSERT INTO rows (at) VALUES (datetime('now', '-30 seconds'))")
    yield connection
    connection.close()


def queries(options: dict[str, str], columns: Sequence[TableColumn] = COLUMNS) -> TableQueries:
    return TableQueries(TableOptions.from_options({"table": "rows", **options}), columns)


def ask(database: sqlite3.Connection, statement: Statement) -> list[Any]:
    return database.execute(statement.text, statement.values).fetchall()


def batches(database: sqlite3.Connection, options: dict[str, str], most: int) -> list[list[int]]:
    """Return the ids of all batches of a table that does not change."""
    plan, at, found = queries(options), START, []
    while answer := ask(database, plan.end(at, None, most)):
        end = plan.position(answer[0])
        found.append([row[0] for row in ask(database, plan.rows(at, end))])
        at = end
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (BY_ID, [[1, 2], [3, 4], [5, 6]]),
        # Rows of one time stay together, as the next batch begins behind it.
        (BY_TIME, [[1, 2, 3], [4, 5], [6]]),
        (BY_BOTH, [[1, 2], [3, 4], [5, 6]]),
    ],
)
def test_every_row_comes_once_and_in_order(
    database: sqlite3.Connection, options: dict[str, str], expected: list[list[int]]
) -> None:
    found = batches(database, options, 2)

    assert [sorted(batch) for batch in found] == expected


@pytest.mark.parametrize("options", [BY_TIME, BY_BOTH])
def test_rows_that_are_younger_than_the_delay_wait(
    database: sqlite3.Connection, options: dict[str, str]
) -> None:
    found = batches(database, {**options, "timestamp.delay.interval.ms": "60000"}, 100)

    assert [sorted(batch) for batch in found] == [[1, 2, 3, 4, 5]]


@pytest.mark.parametrize(("now_ms", "expected"), [(5_000, [[1]]), (5_001, [[1, 2]])])
def test_rows_of_the_present_time_wait(
    database: sqlite3.Connection, now_ms: int, expected: list[list[int]]
) -> None:
    """More rows of that time may come, and would lie before the next batch."""
    database.create_function("julianday", 1, lambda _now: 2440587.5 + now_ms / DAY_MS)
    database.execute("DROP TABLE rows")
    database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, at INTEGER NOT NULL)")
    database.execute("INSERT INTO rows (at) VALUES (4000), (5000)")

    assert batches(database, BY_TIME, 100) == expected


def test_a_range_is_the_same_however_much_comes_later(database: sqlite3.Connection) -> None:
    plan = queries(BY_BOTH)
    end = plan.position(ask(database, plan.end(START, None, 3))[0])
    before = ask(database, plan.rows(START, end))

    database.execute("INSERT INTO rows (at) VALUES ('1970-01-04')")

    assert ask(database, plan.rows(START, end)) == before
    assert end == Position(timestamp=2 * DAY_MS, incrementing=3)


def test_a_target_bounds_the_new_rows(database: sqlite3.Connection) -> None:
    plan = queries(BY_ID)
    target = Position(incrementing=4)

    assert ask(database, plan.end(Position(incrementing=1), target, None)) == [(4,)]
    assert ask(database, plan.end(target, target, None)) == []


def test_a_row_without_a_place_is_never_an_end(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE some (id INTEGER, at TEXT)")
    database.execute("INSERT INTO some VALUES (1, '1970-01-02'), (NULL, '1970-01-03'), (3, NULL)")
    plan = queries({**BY_BOTH, "table": "some", "validate.non.null": "false"})

    assert ask(database, plan.end(START, None, None)) == [(DAY_MS, 1)]


def test_times_may_be_milliseconds(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE numbers (id INTEGER, at INTEGER)")
    database.execute("INSERT INTO numbers VALUES (1, 86400000), (2, 86400001)")
    options = {**BY_TIME, "table": "numbers"}

    assert batches(database, options, 1) == [[1], [2]]


def test_a_value_that_is_not_a_time_is_found(database: sqlite3.Connection) -> None:
    plan = queries(BY_TIME)
    statement = plan.unreadable_time()
    assert statement is not None
    assert ask(database, statement) == []

    database.execute("INSERT INTO rows (at) VALUES ('yesterday')")

    assert ask(database, statement) == [("yesterday", "7")]


def test_names_are_quoted(database: sqlite3.Connection) -> None:
    name = 'a "b"; DROP TABLE rows --%s?'
    quoted = name.replace('"', '""')
    database.execute(f'CREATE TABLE "{quoted}" ("{quoted}" INTEGER NOT NULL)')
    database.execute(f'INSERT INTO "{quoted}" VALUES (7)')
    options = {**URL, "mode": "incrementing", "incrementing.column.name": name, "table": f'"{quoted}"'}
    plan = queries(options, [sqlite_column(name, "INTEGER", False)])

    assert ask(database, plan.end(START, None, 5)) == [(7,)]
    assert ask(database, plan.rows(START, Position(incrementing=7))) == [(7,)]


def test_values_are_never_part_of_the_text() -> None:
    position = Position(timestamp="'; DROP TABLE rows --", incrementing=41)
    plan = queries(
        {**BY_BOTH, "connection.url": "postgresql://host/db"},
        [postgresql_column("id", "int8", -1, False), postgresql_column("at", "timestamptz", -1, False)],
    )

    statement = plan.rows(position, position)

    assert "DROP" not in statement.text and "41" not in statement.text
    assert statement.values == ("'; DROP TABLE rows --", 41) * 2
    assert statement.text.count("%s") == 4
    assert "CAST(%s AS timestamptz)" in statement.text


def test_a_percent_sign_in_a_name_is_no_placeholder() -> None:
    options = {**URL, "connection.url": "postgresql://host/db", "table": "50%s", "mode": "bulk"}

    statement = queries(options, [postgresql_column("a%", "int4", -1, True)]).everything()

    assert statement == Statement(text='SELECT "a%%" FROM "50%%s"')


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        (BY_ID, COLUMNS[1:], "incrementing.column.name: names id, but rows has at"),
        (BY_ID, [sqlite_column("id", "TEXT", False)], "incrementing.column.name: id is of type TEXT"),
        (BY_ID, [sqlite_column("id", "INT", True)], "incrementing.column.name: names id, which may be null"),
        (
            {**BY_TIME, "connection.url": "postgresql://host/db"},
            [postgresql_column("at", "date", -1, False)],
            "timestamp.column.name: at is of type date, not timestamp",
        ),
    ],
)
def test_a_column_that_cannot_show_new_rows_is_refused(
    options: dict[str, str], columns: list[TableColumn], message: str
) -> None:
    with pytest.raises(OptionError) as refused:
        queries(options, columns)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "position"),
    [
        (BY_ID, Position(incrementing=-5)),
        (BY_TIME, Position(timestamp="2013-01-01 05:00:00.000001+00")),
        (BY_BOTH, Position(timestamp=1, incrementing=2)),
        ({**URL, "mode": "bulk"}, Position(polled_ms=3)),
        (BY_BOTH, START),
        (BY_BOTH, Position(beyond=7)),
        (BY_TIME, Position(timestamp="2013-01-01 05:00:00.000001+00", beyond="infinity")),
    ],
)
def test_a_checkpoint_returns_the_position_it_was_given(options: dict[str, str], position: Position) -> None:
    read = TableOptions.from_options({"table": "rows", **options})

    assert from_offset(to_offset(position, read), read) == position


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ({"mode": "bulk"}, "mode: is incrementing, but the checkpoint was written with bulk"),
        ({"table": "others"}, "table: is rows, but the checkpoint was written with others"),
        ({"incrementing": "7"}, "checkpoint: has incrementing that is not a whole number"),
        ({"incrementing": True}, "checkpoint: has incrementing that is not a whole number"),
        ({"timestamp": 7}, "checkpoint: has an offset that mode incrementing does not produce"),
        ({"timestamp": [7]}, "checkpoint: has a timestamp that is neither text nor a number"),
        ({"beyond": {}}, "checkpoint: has a beyond that is neither text nor a number"),
    ],
)
def test_a_checkpoint_of_other_options_is_refused(offset: dict[str, object], message: str) -> None:
    read = TableOptions.from_options({"table": "rows", **BY_ID})

    with pytest.raises(OptionError) as refused:
        from_offset({"table": "rows", "mode": "incrementing", **offset}, read)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("declared", "modifier", "kind", "is_cast"),
    [
        ("int2", -1, pa.int16(), False),
        ("numeric", (10 << 16 | 2) + 4, pa.decimal128(10, 2), False),
        ("numeric", (50 << 16 | 2) + 4, pa.string(), True),
        ("numeric", -1, pa.string(), True),
        ("timestamptz", -1, pa.timestamp("us", tz="UTC"), False),
        ("timestamp", -1, pa.timestamp("us"), False),
        ("interval", -1, pa.string(), True),
        ("bytea", -1, pa.binary(), False),
    ],
)
def test_types_of_postgresql_are_kept_or_text(
    declared: str, modifier: int, kind: pa.DataType, is_cast: bool
) -> None:
    column = postgresql_column("a", declared, modifier, True)

    assert (column.kind, column.is_cast) == (kind, is_cast)


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("BIGINT", pa.int64()),
        ("varchar(20)", pa.string()),
        ("Double Precision", pa.float64()),
        ("BLOB", pa.binary()),
        ("boolean", pa.bool_()),
        ("DECIMAL(10,2)", pa.string()),
        ("", pa.string()),
    ],
)
def test_types_of_sqlite_go_by_affinity(declared: str, kind: pa.DataType) -> None:
    """SQLite itself casts nothing: of a real number it would keep 15 digits."""
    column = sqlite_column("a", declared, True)

    assert (column.kind, column.is_cast) == (kind, False)
