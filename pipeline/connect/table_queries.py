"""The questions that are asked of a table. Names are quoted, values are parameters and never text."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.connect.table_columns import TableColumn, is_whole_number
from pipeline.connect.table_options import Engine, TableOptions
from pipeline.connect.table_position import Position, Value
from pipeline.option_values import shown
from pipeline.words import OptionError

# Milliseconds since 1970 of a column that is text, or already is that number, as Java's driver stores it.
_SQLITE_MS = "CAST(round((julianday({0}) - 2440587.5) * 86400000.0) AS INTEGER)"
_SQLITE_TIME = f"CASE typeof({{0}}) WHEN 'integer' THEN {{0}} ELSE {_SQLITE_MS} END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A statement, and the values of its placeholders in order."""

    text: str
    values: tuple[Value, ...] = ()


class TableQueries:
    """Writes the questions about one table; `columns` are those that it has."""

    def __init__(self, options: TableOptions, columns: Sequence[TableColumn]) -> None:
        self._options = options
        self._columns = columns
        self._is_sqlite = options.engine is Engine.SQLITE
        self._table = ".".join(self._quote(part) for part in options.table)
        self._incrementing, self._time, self._of_time = "", "", ""
        if options.incrementing_column is not None:
            self._incrementing = self._number_column(options.incrementing_column)
        if options.timestamp_column is not None:
            self._time = self._time_column(options.timestamp_column)

    def everything(self) -> Question:
        """All rows, in whatever order they come."""
        return Question(text=f"SELECT {self._selected()} FROM {self._table}")

    def rows(self, start: Position, end: Position) -> Question:
        """The rows behind `start` up to and with `end`, in the order of their places."""
        after, after_values = self._compared(">", start)
        until, until_values = self._compared("<=", end)
        return Question(
            text=f"SELECT {self._selected()} FROM {self._table}"
            f" WHERE {' AND '.join([*after, *until])} ORDER BY {', '.join(self._places())}",
            values=(*after_values, *until_values),
        )

    def end(self, start: Position, target: Position | None, max_rows: int | None) -> Question:
        """The place of the last row of the next batch; no row when nothing is new.

        At most `max_rows` behind `start`, not behind `target`, and with a timestamp that is as old as the
        delay asks for. The columns are those of `Position` that the mode has.
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
            limit = f" ORDER BY {', '.join(places)} LIMIT {self._mark()}"
            values.append(max_rows)
        names = [f"place_{number}" for number in range(len(places))]
        shown = [self._shown(name, number) for number, name in enumerate(names)]
        inner = ", ".join(f"{place} AS {name}" for place, name in zip(places, names, strict=True))
        # A place that is null is behind every other for PostgreSQL; no row without a place is ever read.
        there = [f"{place} IS NOT NULL" for place in places]
        return Question(
            text=f"SELECT {', '.join(shown)} FROM (SELECT {inner} FROM {self._table}"
            f" WHERE {' AND '.join([*there, *conditions])}{limit}) AS found"
            f" ORDER BY {', '.join(f'{name} DESC' for name in names)} LIMIT 1",
            values=tuple(values),
        )

    def unreadable_time(self) -> Question | None:
        """A value of the timestamp column that is no time; None where the database would not store one."""
        if not self._time or not self._is_sqlite:
            return None
        name = self._quote(self._options.timestamp_column or "")
        return Question(
            text=f"SELECT CAST({name} AS TEXT) FROM {self._table}"
            f" WHERE {name} IS NOT NULL AND {self._time} IS NULL LIMIT 1"
        )

    def position(self, row: Sequence[Value]) -> Position:
        """What the question for an end was answered."""
        found = list(row)
        timestamp = found.pop(0) if self._time else None
        incrementing = found.pop(0) if self._incrementing else None
        if incrementing is not None and not isinstance(incrementing, int):
            raise OptionError(
                "incrementing.column.name", f"has {shown(incrementing)}, which is no whole number"
            )
        return Position(timestamp=timestamp, incrementing=incrementing)

    # ---- parts ------------------------------------------------------------------------------------

    def _compared(self, sign: str, position: Position) -> tuple[list[str], list[Value]]:
        """The conditions by which a row lies on that side of a position; none at the start."""
        values: list[Value] = []
        marks: list[str] = []
        if self._time and position.timestamp is not None:
            marks.append(self._time_mark())
            values.append(position.timestamp)
        if self._incrementing and position.incrementing is not None:
            marks.append(self._mark())
            values.append(position.incrementing)
        if not marks:
            return [], []
        places = self._places()
        if len(places) == 1:
            return [f"{places[0]} {sign} {marks[0]}"], values
        return [f"({', '.join(places)}) {sign} ({', '.join(marks)})"], values

    def _places(self) -> list[str]:
        return [place for place in (self._time, self._incrementing) if place]

    def _selected(self) -> str:
        return ", ".join(
            f"CAST({self._quote(one.name)} AS TEXT)" if one.is_cast else self._quote(one.name)
            for one in self._columns
        )

    def _shown(self, name: str, number: int) -> str:
        is_time = bool(self._time) and number == 0
        return f"CAST({name} AS TEXT)" if is_time and not self._is_sqlite else name

    def _now(self) -> tuple[str, list[Value]]:
        """The moment by the database's clock up to which timestamps are taken."""
        delay_ms = self._options.timestamp_delay_ms
        if self._is_sqlite:
            return _SQLITE_MS.format("'now'") + " - ?", [delay_ms]
        if self._of_time == "timestamptz":
            return "now() - %s * interval '1 millisecond'", [delay_ms]
        zone = self._options.timestamp_zone
        return "(now() AT TIME ZONE %s) - %s * interval '1 millisecond'", [zone, delay_ms]

    def _mark(self) -> str:
        return "?" if self._is_sqlite else "%s"

    def _time_mark(self) -> str:
        return "?" if self._is_sqlite else f"CAST(%s AS {self._of_time})"

    def _quote(self, name: str) -> str:
        # psycopg reads placeholders in names, too.
        quoted = '"' + name.replace('"', '""') + '"'
        return quoted if self._is_sqlite else quoted.replace("%", "%%")

    def _number_column(self, name: str) -> str:
        column = self._find("incrementing.column.name", name)
        if not is_whole_number(column):
            raise OptionError(
                "incrementing.column.name", f"{name} is of type {column.declared}, not whole numbers"
            )
        return self._quote(name)

    def _time_column(self, name: str) -> str:
        column = self._find("timestamp.column.name", name)
        if self._is_sqlite:
            return _SQLITE_TIME.format(self._quote(name))
        if column.declared not in ("timestamp", "timestamptz"):
            raise OptionError("timestamp.column.name", f"{name} is of type {column.declared}, not timestamp")
        self._of_time = column.declared
        return self._quote(name)

    def _find(self, option: str, name: str) -> TableColumn:
        found = next((column for column in self._columns if column.name == name), None)
        if found is None:
            names = ", ".join(column.name for column in self._columns)
            raise OptionError(option, f"names {name}, but {self._options.table_name} has {names}")
        if found.is_nullable and self._options.validate_non_null:
            raise OptionError(
                option,
                f"names {name}, which may be null, and a row with null is never read; make it NOT NULL,"
                " or set validate.non.null to false",
            )
        return found
