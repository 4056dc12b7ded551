"""Columns of a database as columns of Spark: their types, and rows of DB-API as an Arrow batch.

Types that Spark has are kept. All others (intervals, arrays, ranges, numbers without bounds) are read as the
text that the database itself makes of them, so that no value is lost or rounded.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T

from ottla.pipeline.option_values import shown
from ottla.pipeline.words import OptionError

MAX_DECIMAL_DIGITS: Final = 38
UTC: Final = pa.timestamp("us", tz="UTC")
WALL_TIME: Final = pa.timestamp("us")
TEXTS: Final = pa.map_(pa.string(), pa.string())  # by column: values that its type cannot represent
TEXTS_NAME: Final = "out_of_range"
_SIMPLE: Final[Sequence[tuple[pa.DataType, T.DataType]]] = (
    (pa.int16(), T.ShortType()),
    (pa.int32(), T.IntegerType()),
    (pa.int64(), T.LongType()),
    (pa.float32(), T.FloatType()),
    (pa.float64(), T.DoubleType()),
    (pa.bool_(), T.BooleanType()),
    (pa.string(), T.StringType()),
    (pa.binary(), T.BinaryType()),
    (pa.date32(), T.DateType()),
    (UTC, T.TimestampType()),
    (WALL_TIME, T.TimestampNTZType()),
    (TEXTS, T.MapType(T.StringType(), T.StringType())),
)
_POSTGRESQL: Final = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bpchar": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": WALL_TIME,
    "timestamptz": UTC,
}
_INTEGERS: Final = (pa.int16(), pa.int32(), pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column: its name, its type, whether the database must write it as text, and whether it may be null.

    `declared` is the database's name of the type.
    """

    name: str
    kind: pa.DataType
    is_cast: bool
    is_nullable: bool
    declared: str


def postgresql_column(name: str, declared: str, modifier: int, is_nullable: bool) -> TableColumn:
    """Return a column of PostgreSQL: `declared` is its pg_type, `modifier` its atttypmod (-1: none)."""
    kind = _POSTGRESQL.get(declared)
    if declared == "numeric" and modifier >= 4:
        digits, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        if digits <= MAX_DECIMAL_DIGITS and scale <= digits:
            kind = pa.decimal128(digits, scale)
    return TableColumn(
        name=name, kind=kind or pa.string(), is_cast=kind is None, is_nullable=is_nullable, declared=declared
    )


# PostgreSQL has values beyond Spark's first and last: infinities, years BC and after 9999.
_LIMITS: Final = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
    "timestamptz": ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
}


def limits_of(column: TableColumn) -> tuple[str, str] | None:
    """Return the first and last time that Spark has for a column's PostgreSQL type; None for other types."""
    return _LIMITS.get(column.declared)


def has_nan(column: TableColumn) -> bool:
    """Return True if the column may hold NaN, which a PostgreSQL numeric has and Spark's decimal lacks."""
    return bool(pa.types.is_decimal(column.kind))


def with_texts(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Add a column for the text of values that Spark cannot represent, if the table can have such values.

    Its name is TEXTS_NAME, followed by as many `_` as needed to differ from the table's own names.
    """
    if not any(limits_of(one) or has_nan(one) for one in columns):
        return list(columns)
    taken, name = {one.name.lower() for one in columns}, TEXTS_NAME
    while name in taken:  # Spark does not distinguish names by case
        name += "_"
    return [*columns, TableColumn(name=name, kind=TEXTS, is_cast=False, is_nullable=True, declared="")]


def texts_name(columns: Sequence[TableColumn]) -> str | None:
    """Return the name of the column that `with_texts` added, or None."""
    return next((one.name for one in columns if one.kind == TEXTS), None)


def sqlite_column(name: str, declared: str, is_nullable: bool) -> TableColumn:
    """Return a column of SQLite, typed by the rules of type affinity; text if these do not decide.

    The database never makes that text: of a real number it would keep 15 digits.
    """
    word = declared.upper()
    if word.startswith("BOOL"):
        kind = pa.bool_()
    elif "INT" in word:
        kind = pa.int64()
    elif re.search("CHAR|CLOB|TEXT", word):
        kind = pa.string()
    elif "BLOB" in word:
        kind = pa.binary()
    elif re.search("REAL|FLOA|DOUB", word):
        kind = pa.float64()
    else:
        kind = pa.string()
    return TableColumn(name=name, kind=kind, is_cast=False, is_nullable=is_nullable, declared=declared)


def is_whole_number(column: TableColumn) -> bool:
    return column.kind in _INTEGERS


def spark_schema(columns: Sequence[TableColumn]) -> T.StructType:
    """Return Spark's schema of these columns."""
    return T.StructType([T.StructField(column.name, _spark_type(column.kind)) for column in columns])


def arrow_schema(columns: Sequence[TableColumn]) -> pa.Schema:
    """Return Arrow's schema of these columns."""
    return pa.schema([pa.field(column.name, column.kind) for column in columns])


def to_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of DB-API as a batch; OptionError for a value that its column's type cannot hold.

    SQLite has such values, as its types are advice. It has no booleans, only 0 and 1, and any value may be in
    a column of any type, such as a real number in one of integers.
    """
    arrays = []
    for field, values in zip(schema, zip(*rows, strict=True), strict=True):
        fits = _pairs if field.type == TEXTS else _FITS.get(field.type)
        try:
            arrays.append(_array(values, field.type, fits))
        except _CONVERSION_ERRORS as error:
            row = rows[_first_invalid(values, field.type, fits)]
            problem = (
                f"has values in column {field.name} that are not {field.type}: {str(error)[:200]} "
                f"(in the row with {schema[0].name} = {shown(str(row[0]))})"
            )
            raise OptionError("table", problem) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_CONVERSION_ERRORS: Final = (pa.ArrowException, OverflowError, TypeError, ValueError)
Fits = Callable[[Any], Any]


def _array(values: Sequence[Any], kind: pa.DataType, fits: Fits | None) -> pa.Array:
    given = values if fits is None else [None if one is None else fits(one) for one in values]
    return pa.array(given, kind)


def _first_invalid(values: Sequence[Any], kind: pa.DataType, fits: Fits | None) -> int:
    for number, value in enumerate(values):
        try:
            _array([value], kind, fits)
        except _CONVERSION_ERRORS:
            return number
    return 0


def _whole(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int):
        return value
    raise ValueError(f"{shown(str(value))} is not a whole number")


def _real(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and int(float(value)) == value:
        return float(value)
    raise ValueError(f"{shown(str(value))} is not a real number, or has too many digits")


def _boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{shown(str(value))} is not 0, 1, true or false")


def _pairs(names_and_texts: Sequence[str | None]) -> list[tuple[str | None, str]]:
    alternating = iter(names_and_texts)
    return [(name, text) for name, text in zip(alternating, alternating, strict=True) if text is not None]


def _text(value: Any) -> str:
    """Return a number with all its digits; bytes as text, since some programs store text only as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value if isinstance(value, str) else repr(value)


_FITS: Final[Mapping[pa.DataType, Fits]] = {
    pa.int16(): _whole,
    pa.int32(): _whole,
    pa.int64(): _whole,
    pa.float64(): _real,
    pa.bool_(): _boolean,
    pa.string(): _text,
}


def _spark_type(kind: pa.DataType) -> T.DataType:
    if pa.types.is_decimal(kind):
        return T.DecimalType(kind.precision, kind.scale)
    return next(spark for arrow, spark in _SIMPLE if arrow == kind)
