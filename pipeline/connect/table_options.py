"""The options of a table source: the table of a database, and the columns that show which rows are new.

Names and meanings are those of Kafka Connect's JDBC source where it has them. The query's trigger decides how
often the table is polled; in mode bulk, `poll.interval.ms` is the least time between two reads.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ottla.pipeline.connect.record_mapping import RecordMapping
from ottla.pipeline.option_values import OptionValues, shown
from ottla.pipeline.words import OptionError

MAX_BATCH_ROWS: Final = 10_000_000
DEFAULT_BATCH_ROWS: Final = 100_000
DAY_MS: Final = 86_400_000
_PART: Final = re.compile(r'"(?:[^"\0]|"")+"|[^".\0]+')


class Mode(Enum):
    """The way to distinguish new rows from those that were read."""

    BULK = "bulk"  # not at all: the whole table is read again and again
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"

    @property
    def has_timestamp(self) -> bool:
        return self in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)

    @property
    def has_incrementing(self) -> bool:
        return self in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)


class OutOfRange(Enum):
    """The handling of values that PostgreSQL has and Spark lacks: infinity, years BC, NaN in a decimal."""

    TEXT = "text"  # the value is passed on as PostgreSQL's text, all others keep their type
    FAIL = "fail"  # the error names row and column
    NULL = "null"
    CLAMP = "clamp"  # to Spark's first or last value; NaN to null


class Engine(Enum):
    """The kinds of databases."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """All options of a table; `table` has the parts of its name: schema and table, or the table alone."""

    engine: Engine
    connection: str = field(repr=False)  # a path for SQLite, a URI for PostgreSQL
    user: str | None
    password: str | None = field(repr=False)
    table: tuple[str, ...]
    mode: Mode
    incrementing_column: str | None
    timestamp_column: str | None
    timestamp_delay_ms: int
    timestamp_zone: str
    batch_max_rows: int
    poll_interval_ms: int
    validate_non_null: bool
    out_of_range: OutOfRange
    mapping: RecordMapping

    @property
    def table_name(self) -> str:
        return ".".join(self.table)

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> "TableOptions":
        """Read the options; OptionError for the first that cannot be honoured."""
        values = OptionValues(given)
        engine, connection = _connection(values.text("connection.url"))
        mode = Mode(values.choice("mode", [mode.value for mode in Mode]))
        options = cls(
            engine=engine,
            connection=connection,
            user=values.optional("connection.user"),
            password=values.optional("connection.password"),
            table=_table(values.text("table")),
            mode=mode,
            incrementing_column=_column(values, "incrementing.column.name", mode, mode.has_incrementing),
            timestamp_column=_column(values, "timestamp.column.name", mode, mode.has_timestamp),
            timestamp_delay_ms=values.integer("timestamp.delay.interval.ms", 0, least=0, most=DAY_MS),
            timestamp_zone=values.text("db.timezone", "UTC"),
            batch_max_rows=values.integer("batch.max.rows", DEFAULT_BATCH_ROWS, least=1, most=MAX_BATCH_ROWS),
            poll_interval_ms=values.integer("poll.interval.ms", 5_000, least=1, most=365 * DAY_MS),
            validate_non_null=values.boolean("validate.non.null", True),
            out_of_range=OutOfRange(
                values.choice("out.of.range", [one.value for one in OutOfRange], OutOfRange.TEXT.value)
            ),
            mapping=RecordMapping.read(values),
        )
        values.refuse_others()
        options._check(values)
        return options

    def _check(self, values: OptionValues) -> None:
        if self.engine is Engine.SQLITE and (self.user or self.password):
            raise OptionError(
                "connection.user", "and connection.password are for PostgreSQL; SQLite is a file"
            )
        if self.engine is Engine.SQLITE and values.optional("db.timezone"):
            raise OptionError("db.timezone", "is for PostgreSQL; times in SQLite are UTC")
        if self.engine is Engine.SQLITE and values.optional("out.of.range"):
            raise OptionError("out.of.range", "is for PostgreSQL; SQLite has no such types")
        for option, serves in (
            ("timestamp.delay.interval.ms", self.mode.has_timestamp),
            ("poll.interval.ms", self.mode is Mode.BULK),
            ("batch.max.rows", self.mode is not Mode.BULK),
        ):
            if values.optional(option) is not None and not serves:
                raise OptionError(option, f"has no effect in mode {self.mode.value}")


def _column(values: OptionValues, option: str, mode: Mode, is_needed: bool) -> str | None:
    name = values.optional(option)
    if is_needed and not name:
        raise OptionError(option, f"is missing; it is required in mode {mode.value}")
    if name and not is_needed:
        raise OptionError(option, f"has no effect in mode {mode.value}")
    return name or None


def _table(value: str) -> tuple[str, ...]:
    """Read `flights`, `public.flights` or `"odd.name"`; the case of letters is the catalogue's."""
    found, at = [], 0
    while True:
        match = _PART.match(value, at)
        if match is None:
            raise OptionError(
                "table",
                f"is {shown(value)}; it must be a table or schema.table; quote parts that contain dots",
            )
        part = match[0]
        found.append(part[1:-1].replace('""', '"') if part.startswith('"') else part)
        at = match.end()
        if at == len(value):
            break
        if value[at] != ".":
            raise OptionError(
                "table",
                f"is {shown(value)}; it must be a table or schema.table; quote parts that contain dots",
            )
        at += 1
    if len(found) > 2:
        raise OptionError("table", f"is {shown(value)}, which has more parts than schema.table")
    return tuple(found)


def _connection(url: str) -> tuple[Engine, str]:
    """Read `sqlite:/path/to/file` or `postgresql://host:port/database?…`, both also after `jdbc:`.

    Errors never show the rest of the URL, as it may contain a password.
    """
    option = "connection.url"
    rest = url.removeprefix("jdbc:")
    scheme, colon, where = rest.partition(":")
    if scheme == "sqlite" and colon:
        path = Path(where.removeprefix("//"))
        if not path.is_absolute() or "\0" in where:
            raise OptionError(option, "must be sqlite:/absolute/path/of/file for SQLite")
        return Engine.SQLITE, str(path)
    if scheme in ("postgresql", "postgres") and colon:
        try:
            parts = urlsplit(rest)
            parameters = {name.lower() for name, _ in parse_qsl(parts.query)}
            has_password = parts.password is not None or parameters & {"password", "sslpassword"}
        except ValueError:
            raise OptionError(option, "is not a URL; use postgresql://host:port/database") from None
        if has_password:
            raise OptionError(option, "contains a password; use connection.password or PGPASSFILE instead")
        if not where.startswith("//") or not parts.path.strip("/"):
            raise OptionError(option, "must be postgresql://host:port/database for PostgreSQL")
        return Engine.POSTGRESQL, rest
    raise OptionError(option, "begins with neither sqlite: nor postgresql:")
