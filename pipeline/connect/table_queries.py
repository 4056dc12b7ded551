"""The statements about a table. Names are quoted; values are parameters and never part of the text."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.pipeline.connect.table_columns import TEXTS, TableColumn, has_nan, is_whole_number, limits_of
from ottla.pipeline.connect.table_options import Engine, OutOfRange, TableOptions
from ottla.pipeline.connect.table_position import Position, Value
from ottla.pipeline.option_values import shown
from ottla.pipeline.words import OptionError

# Milliseconds since 1970 of a column that is text, or already that number, as Java's driver stores it.
_SQLITE_MS = "CAST(round((julianday({0}) - 2440587.5) * 86400000.0) AS INTEGER)"
_LAST_TIME = "9999-12-31 23:59:59.999999+00"  # a column without time zone ignores the offset
_SQLITE_TIME = f"CASE typeof({{0}}) WHEN 'integer' THEN {{0}} ELSE {_SQLITE_MS} END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement, and the values of its placeholders in order."""

    text: str
    values: tuple[Value, ...] = ()


class TableQueries:
    """Writes the statements about one table, which has `columns`."""

    def __init__(self, options: TableOptions, columns: Sequence[TableColumn]) -> None:
        self._options = options
        self._columns = columns
        self._is_sqlite = options.engine is Engine.SQLITE
        self._table = ".".join(self._quote(part) for part in options.table)
        self._incrementing, self._time, self._time_type = "", "", ""
        if options.incrementing_column is not None:
            self._incrementing = self._number_column(options.incrementing_column)
        if options.timestamp_column is not None:
            self._time = self._time_column(options.timestamp_column)

    @property
    def row_name(self) -> str:
        """The column that names a row in messages."""
        return self._options.incrementing_column or self._columns[0].name

    def everything(self) -> Statement:
        """Select all rows, in any order."""
        return Statement(text=f"SELECT {self._selected()} FROM {self._table}")

    def rows(self, start: Position, end: Position) -> Statement:
        """Select the rows after `start` up to and including `end`, in the order of their places."""
        conditions, values = self._between(start, end)
        return Statement(
            text=f"SELECT {self._selected()} FROM {self._table}"
            f" WHERE {' AND '.join(conditions)} ORDER BY {', '.join(self._places())}",
            values=tuple(values),
        )

    def out_of_range(self, start: Position, end: Position) -> Statement | None:
        """Select a value in a range of rows that Spark cannot represent: its column, its text, and the row.

        Returns None if no value can stop the read of a table. The statement is executed after a range could
        not be read, to find the reason.
        """
        if self._options.out_of_range is not OutOfRange.FAIL:
            return None
        conditions, values = self._between(start, end)
        row = self._quote(self.row_name)
        parts: list[str] = []
        given: list[Value] = []
        for column in self._columns:
            beyond = self._beyond(column)
            if beyond:
                parts.append(
                    f"(SELECT '{len(parts)}', {self._quote(column.name)}::text, {row}::text"
                    f" FROM {self._table}"
                    f" WHERE {' AND '.join([beyond, *conditions])} LIMIT 1)"
                )
                given += values
        if not parts:
            return None
        return Statement(text=" UNION ALL ".join(parts) + " LIMIT 1", values=tuple(given))

    def out_of_range_error(self, found: Sequence[Value]) -> OptionError:
        """Return the error for a row that `out_of_range` has found."""
        columns = [column for column in self._columns if self._beyond(column)]
        return OptionError(
            "table",
            f"has {shown(str(found[1]))} in column {columns[int(found[0])].name} of the row with "
            f"{self.row_name} = {shown(str(found[2]))}, a value that Spark cannot represent: set "
            "out.of.range to text, null or clamp",
        )

    def end(self, start: Position, target: Position | None, max_rows: int | None) -> Statement:
        """Select the place of the last row of the next batch; no row if nothing is new.

        It lies at most `max_rows` after `start`, not after `target`, and its timestamp is at least as
        old as the delay demands. The columns are those of `Position` that the mode has.
        """
        conditions, values = self._compared(">", start)
        if target is not None:
            until, until_values = self._compared("<=", target)
            conditions, values = [*conditions, *until], [*values, *until_values]
        if self._time:
            now, now_values = self._now()
            conditions.append(f"{self._time} < {now}")
            values += now_values
        places = self._places()
        limit = ""
        if max_rows is not None:
            limit = f" ORDER BY {', '.join(places)} LIMIT {self._placeholder()}"
            values.append(max_rows)
        names = [f"place_{number}" for number in range(len(places))]
        shown = [self._shown(name, number) for number, name in enumerate(names)]
        inner = ", ".join(f"{place} AS {name}" for place, name in zip(places, names, strict=True))
        # PostgreSQL sorts a place that is null after all others; a row without a place is never read.
        there = [f"{place} IS NOT NULL" for place in places]
        return Statement(
            text=f"SELECT {', '.join(shown)} FROM (SELECT {inner} FROM {self._table}"
            f" WHERE {' AND '.join([*there, *conditions])}{limit}) AS found"
            f" ORDER BY {', '.join(f'{name} DESC' for name in names)} LIMIT 1",
            values=tuple(values),
        )

    def beyond_end(self, start: Position, target: Position | None, max_rows: int | None) -> Statement | None:
        """Select the `beyond` of the next batch of rows whose time no clock reaches; no row if none are new.

        Returns None if a table cannot have such rows, or `target` has none.
        """
        if not self._time or self._is_sqlite or (target is not None and target.beyond is None):
            return None
        conditions, values = self._compared_beyond(">", start)
        if target is not None:
            until, until_values = self._compared_beyond("<=", target)
            conditions, values = [*conditions, *until], [*values, *until_values]
        place = self._incrementing or self._time
        limit = ""
        if max_rows is not None:
            limit = f" ORDER BY place_0 LIMIT {self._placeholder()}"
            values.append(max_rows)
        column = "place_0" if self._incrementing else "CAST(place_0 AS TEXT)"
        where = " AND ".join([f"{place} IS NOT NULL", self._beyond_clock_condition(), *conditions])
        return Statement(
            text=f"SELECT {column} FROM (SELECT {place} AS place_0 FROM {self._table}"
            f" WHERE {where}{limit}) AS found"
            " ORDER BY place_0 DESC LIMIT 1",
            values=tuple(values),
        )

    def unreadable_time(self) -> Statement | None:
        """Select a value of the timestamp column that is not a time, and the name of its row.

        Returns None if the database would not store such a value.
        """
        if not self._time or not self._is_sqlite:
            return None
        name = self._quote(self._options.timestamp_column or "")
        return Statement(
            text=f"SELECT CAST({name} AS TEXT), CAST({self._quote(self.row_name)} AS TEXT) FROM {self._table}"
            f" WHERE {name} IS NOT NULL AND {self._time} IS NULL LIMIT 1"
        )

    def position(self, row: Sequence[Value]) -> Position:
        """Return the position that the statement of `end` has selected."""
        found = list(row)
        timestamp = found.pop(0) if self._time else None
        incrementing = found.pop(0) if self._incrementing else None
        if incrementing is not None and not isinstance(incrementing, int):
            raise OptionError(
                "incrementing.column.name", f"has {shown(incrementing)}, which is not a whole number"
            )
        return Position(timestamp=timestamp, incrementing=incrementing)

    # ---- parts ------------------------------------------------------------------------------------

    def _between(self, start: Position, end: Position) -> tuple[list[str], list[Value]]:
        """Return the conditions of a batch, which has either rows that no clock reaches or others."""
        compared = self._compared
        conditions: list[str] = []
        if start.beyond != end.beyond:
            compared, conditions = self._compared_beyond, [self._beyond_clock_condition()]
        after, after_values = compared(">", start)
        until, until_values = compared("<=", end)
        return [*conditions, *after, *until], [*after_values, *until_values]

    def _beyond_clock_condition(self) -> str:
        """Return the condition that a row's time is infinity or after 9999, which no clock reaches."""
        return f"{self._time} > CAST('{_LAST_TIME}' AS {self._time_type})"

    def _compared_beyond(self, sign: str, position: Position) -> tuple[list[str], list[Value]]:
        if position.beyond is None:
            return [], []
        if self._incrementing:
            return [f"{self._incrementing} {sign} {self._placeholder()}"], [position.beyond]
        return [f"{self._time} {sign} {self._time_placeholder()}"], [position.beyond]

    def _compared(self, sign: str, position: Position) -> tuple[list[str], list[Value]]:
        """Return the conditions by which a row lies on that side of a position; none at the start."""
        values: list[Value] = []
        placeholders: list[str] = []
        if self._time and position.timestamp is not None:
            placeholders.append(self._time_placeholder())
            values.append(position.timestamp)
        if self._incrementing and position.incrementing is not None:
            placeholders.append(self._placeholder())
            values.append(position.incrementing)
        if not placeholders:
            return [], []
        places = self._places()
        if len(places) == 1:
            return [f"{places[0]} {sign} {placeholders[0]}"], values
        return [f"({', '.join(places)}) {sign} ({', '.join(placeholders)})"], values

    def _places(self) -> list[str]:
        return [place for place in (self._time, self._incrementing) if place]

    def _selected(self) -> str:
        return ", ".join(map(self._value, self._columns))

    def _value(self, column: TableColumn) -> str:
        if column.kind == TEXTS:
            return self._texts()
        name = self._quote(column.name)
        if column.is_cast:
            return f"CAST({name} AS TEXT)"
        beyond, choice = self._beyond(column), self._options.out_of_range
        if not beyond or choice is OutOfRange.FAIL:
            return name
        limits = limits_of(column)
        if limits is None or choice is not OutOfRange.CLAMP:
            return f"CASE WHEN {beyond} THEN NULL ELSE {name} END"
        least, most = (f"CAST('{limit}' AS {column.declared})" for limit in limits)
        return f"CASE WHEN {name} IS NOT NULL THEN greatest({least}, least({most}, {name})) END"

    def _texts(self) -> str:
        """Return an array of the names and texts of a row's values that Spark lacks; null if it has all."""
        found = [(column, beyond) for column in self._columns if (beyond := self._beyond(column))]
        pairs = ", ".join(
            f"{self._literal(column.name)}, CASE WHEN {beyond} THEN {self._quote(column.name)}::text END"
            for column, beyond in found
        )
        any_beyond = " OR ".join(beyond for _, beyond in found)
        return f"CASE WHEN {any_beyond} THEN ARRAY[{pairs}] END"

    def _beyond(self, column: TableColumn) -> str:
        """Return the condition by which Spark cannot represent a value of the column; empty if it can."""
        if self._is_sqlite or column.is_cast:
            return ""
        name, limits = self._quote(column.name), limits_of(column)
        if limits is None:
            return f"{name} = 'NaN'" if has_nan(column) else ""
        least, most = (f"CAST('{limit}' AS {column.declared})" for limit in limits)
        return f"({name} < {least} OR {name} > {most})"

    def _shown(self, name: str, number: int) -> str:
        is_time = bool(self._time) and number == 0
        return f"CAST({name} AS TEXT)" if is_time and not self._is_sqlite else name

    def _now(self) -> tuple[str, list[Value]]:
        """Return the time by the database's clock up to which timestamps are read."""
        delay_ms = self._options.timestamp_delay_ms
        if self._is_sqlite:
            return _SQLITE_MS.format("'now'") + " - ?", [delay_ms]
        if self._time_type == "timestamptz":
            return "now() - %s * interval '1 millisecond'", [delay_ms]
        zone = self._options.timestamp_zone
        return "(now() AT TIME ZONE %s) - %s * interval '1 millisecond'", [zone, delay_ms]

    def _placeholder(self) -> str:
        return "?" if self._is_sqlite else "%s"

    def _time_placeholder(self) -> str:
        return "?" if self._is_sqlite else f"CAST(%s AS {self._time_type})"

    def _quote(self, name: str) -> str:
        # psycopg reads placeholders in names, too.
        quoted = '"' + name.replace('"', '""') + '"'
        return quoted if self._is_sqlite else quoted.replace("%", "%%")

    def _literal(self, text: str) -> str:
        # With a prefix E, backslashes would be escapes; without one they stand for themselves.
        return "CAST('" + text.replace("'", "''").replace("%", "%%") + "' AS text)"

    def _number_column(self, name: str) -> str:
        column = self._find("incrementing.column.name", name)
        if not is_whole_number(column):
            raise OptionError(
                "incrementing.column.name",
                f"{name} is of type {column.declared}, which is not a whole number type",
            )
        return self._quote(name)

    def _time_column(self, name: str) -> str:
        column = self._find("timestamp.column.name", name)
        if self._is_sqlite:
            return _SQLITE_TIME.format(self._quote(name))
        if column.declared not in ("timestamp", "timestamptz"):
            raise OptionError("timestamp.column.name", f"{name} is of type {column.declared}, not timestamp")
        self._time_type = column.declared
        return self._quote(name)

    def _find(self, option: str, name: str) -> TableColumn:
        found = next((column for column in self._columns if column.name == name), None)
        if found is None:
            names = ", ".join(column.name for column in self._columns)
            raise OptionError(option, f"names {name}, but {self._options.table_name} has {names}")
        if found.is_nullable and self._options.validate_non_null:
            raise OptionError(
                option,
                f"names {name}, which may be null, and rows with null in it are never read; make "
                "it NOT NULL, or set validate.non.null to false",
            )
        return found
