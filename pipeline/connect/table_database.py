"""SQLite and PostgreSQL by DB-API, through one interface: the columns of a table, one row, and many rows.

Nothing is ever written: files are opened for reading, and sessions are read-only.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol
from urllib.parse import quote

from ottla.pipeline.connect.table_columns import (
    TableColumn,
    postgresql_column,
    sqlite_column,
    with_texts,
)
from ottla.pipeline.connect.table_options import Engine, OutOfRange, TableOptions
from ottla.pipeline.connect.table_queries import Statement
from ottla.pipeline.words import OptionError

BUSY_TIMEOUT_S: Final = 30  # how long SQLite waits for a writer
CONNECT_TIMEOUT_S: Final = 10
_POSTGRESQL_COLUMNS: Final = """
    SELECT a.attname, coalesce(base.typname, own.typname),
           CASE WHEN base.oid IS NULL THEN a.atttypmod ELSE own.typtypmod END, NOT a.attnotnull
    FROM pg_attribute a
    JOIN pg_type own ON own.oid = a.atttypid
    LEFT JOIN pg_type base ON own.typtype = 'd' AND base.oid = own.typbasetype
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum"""


class TableError(Exception):
    """An error of a database; `table` is its name, `problem` the database's message."""

    def __init__(self, table: str, problem: str) -> None:
        super().__init__(table, problem)
        self.table = table
        self.problem = problem

    def __str__(self) -> str:
        return f"table {self.table}: {self.problem}"


class Database(Protocol):
    """A connection for reading one table."""

    def columns(self) -> list[TableColumn]:
        """Return the table's columns in order; OptionError if the table does not exist.

        The column of `with_texts` follows them if `out.of.range` is text and the table needs it.
        """
        ...

    def first(self, statement: Statement) -> Sequence[Any] | None:
        """Return the first row of the result, or None if it has none."""
        ...

    def batches(self, statement: Statement, rows: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield all rows of the result, at most `rows` at a time."""
        ...

    def close(self) -> None: ...


def open_database(options: TableOptions) -> Database:
    """Connect to a database; TableError if that fails, OptionError if its driver is missing."""
    match options.engine:
        case Engine.SQLITE:
            return _Sqlite(options)
        case Engine.POSTGRESQL:
            return _Postgresql(options)


class _Sqlite:
    def __init__(self, options: TableOptions) -> None:
        self._options = options
        with self._translated_errors():
            self._connection = sqlite3.connect(
                f"file:{quote(options.connection)}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S
            )

    def columns(self) -> list[TableColumn]:
        schema, name = (("main", *self._options.table))[-2:]
        # Generated columns have 2 and 3; 1 marks the parameters that a virtual table hides.
        text = (
            'SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?, ?) WHERE hidden IN (0, 2, 3)'
            " ORDER BY cid"
        )
        with self._translated_errors():
            found = self._connection.execute(text, (name, schema)).fetchall()
        if not found:
            raise OptionError("table", f"{self._options.table_name} does not exist")
        keys = sum(1 for row in found if row[3])
        return [
            # An INTEGER PRIMARY KEY is another name of the rowid, which is never null though not declared so.
            sqlite_column(
                name, declared, not is_not_null and not (key and keys == 1 and declared.upper() == "INTEGER")
            )
            for name, declared, is_not_null, key in found
        ]

    def first(self, statement: Statement) -> Sequence[Any] | None:
        with self._translated_errors():
            found: Sequence[Any] | None = self._connection.execute(
                statement.text, statement.values
            ).fetchone()
        return found

    def batches(self, statement: Statement, rows: int) -> Iterator[Sequence[Sequence[Any]]]:
        with self._translated_errors():
            cursor = self._connection.execute(statement.text, statement.values)
            while batch := cursor.fetchmany(rows):
                yield batch

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise TableError(self._options.table_name, str(error)) from None


class _Postgresql:
    def __init__(self, options: TableOptions) -> None:
        try:
            import psycopg
        except ImportError:
            problem = "is PostgreSQL, whose driver is missing: pip install 'ottla[postgresql]'"
            raise OptionError("connection.url", problem) from None
        self._options = options
        self._error = psycopg.Error
        given: dict[str, Any] = {"user": options.user, "password": options.password}
        with self._translated_errors():
            self._connection = psycopg.connect(
                options.connection,
                connect_timeout=CONNECT_TIMEOUT_S,
                **{name: value for name, value in given.items() if value is not None},
            )
            self._connection.read_only = True
            # Timestamps are exchanged as text, which must mean the same in each session; and a role may have
            # settings by which numbers would lose digits.
            self._connection.execute(
                "SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false),"
                " set_config('IntervalStyle', 'postgres', false),"
                " set_config('extra_float_digits', '3', false)"
            )
            self._connection.commit()

    def columns(self) -> list[TableColumn]:
        name = ".".join('"' + part.replace('"', '""') + '"' for part in self._options.table)
        with self._translated_errors(), self._connection.transaction():
            found = self._connection.execute(_POSTGRESQL_COLUMNS, (name,)).fetchall()
        if not found:
            raise OptionError("table", f"{self._options.table_name} does not exist")
        columns = [postgresql_column(*row) for row in found]
        return with_texts(columns) if self._options.out_of_range is OutOfRange.TEXT else columns

    def first(self, statement: Statement) -> Sequence[Any] | None:
        with self._translated_errors(), self._connection.transaction():
            # The statement contains only quoted names, see `table_queries`.
            found: Sequence[Any] | None = self._connection.execute(
                statement.text.encode(), statement.values
            ).fetchone()
        return found

    def batches(self, statement: Statement, rows: int) -> Iterator[Sequence[Sequence[Any]]]:
        # A server-side cursor: a client-side one would fetch the whole result at once.
        with (
            self._translated_errors(),
            self._connection.transaction(),
            self._connection.cursor(name="ottla") as cursor,
        ):
            cursor.execute(statement.text.encode(), statement.values)
            while batch := cursor.fetchmany(rows):
                yield batch

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise TableError(self._options.table_name, str(error).strip()) from None
