"""The source of a table as Spark calls it: the end of the table now, and the rows between two places.

The ends are selected in the process that plans; a task has its own connection, and a statement with both
ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.pipeline.client.clock import wall_ms
from ottla.pipeline.connect.table_columns import TableColumn, arrow_schema, spark_schema, to_batch
from ottla.pipeline.connect.table_database import Database, TableError, open_database
from ottla.pipeline.connect.table_options import Mode, TableOptions
from ottla.pipeline.connect.table_position import START, Position, Value, from_offset, to_offset
from ottla.pipeline.connect.table_queries import Statement, TableQueries
from ottla.pipeline.option_values import shown
from ottla.pipeline.words import OptionError

FORMAT: Final = "ottla_table"
ROWS_AT_ONCE: Final = 10_000  # some megabytes, as much as Spark wants in an Arrow batch


def find_columns(options: TableOptions) -> list[TableColumn]:
    """Return the columns of the table; OptionError if the options do not fit them, TableError."""
    database = open_database(options)
    try:
        columns = database.columns()
    finally:
        database.close()
    TableQueries(options, columns)
    return columns


class TableDataSource(DataSource):
    """A table of SQLite or PostgreSQL, for streams."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(find_columns(TableOptions.from_options(dict(self.options))))

    def streamReader(self, schema: StructType) -> "TableReader":
        return TableReader(TableOptions.from_options(dict(self.options)))


@dataclass(slots=True)
class TablePartition(InputPartition):
    """The statement of a task, and the columns of its result."""

    statement: Statement
    schema: pa.Schema
    queries: TableQueries
    start: Position
    end: Position


class TableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's view of a table."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._database: Database | None = None
        self._columns: Sequence[TableColumn] = ()
        self._target: Position | None = None

    def initialOffset(self) -> dict[str, Any]:
        return dict(to_offset(START, self._options))

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.mode is Mode.BULK:
            return ReadAllAvailable()
        return ReadMaxRows(self._options.batch_max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._end(START, None, None)
        if self._options.mode.has_timestamp:
            self._target = replace(self._target, beyond=self._beyond_end(START, None, None))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = from_offset(start, self._options)
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if self._options.mode.has_timestamp:
            beyond = self._beyond_end(begun, self._target, max_rows)
            if beyond is not None:  # a batch by itself, so that each batch has one kind of order
                return dict(to_offset(replace(begun, beyond=beyond), self._options))
        end = replace(self._end(begun, self._target, max_rows), beyond=begun.beyond)
        return dict(to_offset(end, self._options))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[TablePartition]:
        begun, ended = from_offset(start, self._options), from_offset(end, self._options)
        if begun == ended:
            return []
        queries = self._queries()
        is_bulk = self._options.mode is Mode.BULK
        statement = queries.everything() if is_bulk else queries.rows(begun, ended)
        return [TablePartition(statement, arrow_schema(self._columns), queries, begun, ended)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TablePartition), partition
        database = open_database(self._options)
        try:
            for rows in database.batches(partition.statement, ROWS_AT_ONCE):
                yield to_batch(rows, partition.schema)
        except (TableError, OptionError):
            problem = _out_of_range(self._options, partition)
            if problem is not None:
                raise problem from None
            raise
        finally:
            database.close()

    def stop(self) -> None:
        self._disconnect()

    # ---- ends -------------------------------------------------------------------------------------

    def _end(self, start: Position, target: Position | None, max_rows: int | None) -> Position:
        if self._options.mode is Mode.BULK:
            return self._next_poll(start, target)
        if target is not None and target.is_start:
            return start  # the table was empty when the run began, and it reads no further
        queries = self._queries()
        unreadable = queries.unreadable_time()
        if unreadable is not None:
            row = self._first(unreadable)
            if row is not None:
                problem = (
                    f"has {shown(str(row[0]))} in the row with {queries.row_name} = "
                    f"{shown(str(row[1]))}, which is not a time"
                )
                raise OptionError("timestamp.column.name", problem)
        found = self._first(queries.end(start, target, max_rows))
        return start if found is None else queries.position(found)

    def _beyond_end(self, start: Position, target: Position | None, max_rows: int | None) -> Value | None:
        """Return the `beyond` of the next batch of rows that no clock reaches; None if there are none."""
        statement = self._queries().beyond_end(start, target, max_rows)
        found = None if statement is None else self._first(statement)
        return None if found is None else found[0]

    def _next_poll(self, start: Position, target: Position | None) -> Position:
        now_ms = wall_ms()
        if target is not None:
            # With Trigger.AvailableNow there is one poll per run, however soon it follows the last one.
            is_done = start.polled_ms is not None and start.polled_ms >= (target.polled_ms or 0)
            return start if is_done else target
        if start.polled_ms is not None and now_ms < start.polled_ms + self._options.poll_interval_ms:
            return start
        return Position(polled_ms=now_ms)

    def _queries(self) -> TableQueries:
        if not self._columns:
            self._columns = self._connected().columns()
        return TableQueries(self._options, self._columns)

    def _first(self, statement: Statement) -> Sequence[Any] | None:
        is_kept = self._database is not None
        try:
            return self._connected().first(statement)
        except TableError:
            self._disconnect()
            if not is_kept:
                raise
        # The connection was that of an earlier batch; the server may have been restarted since.
        return self._connected().first(statement)

    def _connected(self) -> Database:
        if self._database is None:
            self._database = open_database(self._options)
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _out_of_range(options: TableOptions, partition: TablePartition) -> OptionError | None:
    """Return the reason why a range could not be read, if it has a value that Spark cannot represent.

    The value is looked for on another connection.
    """
    statement = partition.queries.out_of_range(partition.start, partition.end)
    if statement is None:
        return None
    try:
        database = open_database(options)
    except TableError:
        return None
    try:
        found = database.first(statement)
    except TableError:
        return None
    finally:
        database.close()
    return None if found is None else partition.queries.out_of_range_error(found)
