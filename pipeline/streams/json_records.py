"""Reads records of JSON as rows, and writes rows as records, in the form that other programs use."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.utils import ParseException

from ottla.pipeline.row_texts import as_json, as_text, column
from ottla.pipeline.streams.arguments import names_of, one_of, refuse_existing_columns
from ottla.pipeline.words import OptionError

_PARSED = "__parsed"
_BROKEN = "__broken"


def parse(records: DataFrame, *, schema: str, keep: str = "", broken: str = "fail") -> DataFrame:
    """Return the fields of each record's value, which is a JSON object, as columns.

    `schema` names them as in SQL, `carrier STRING, delay LONG`; a field that a value does not have is null.
    `keep` names columns of the records that stay, as `record_offset`. A record without a value (a tombstone)
    gives no row. A value that is not JSON, or has a field of another type, fails the query, or is left out
    with `broken="drop"`.
    """
    fields = _schema_of(schema)
    kept = names_of(keep, "keep", records.columns, may_be_empty=True)
    one_of(broken, "broken", ("fail", "drop"))
    refuse_existing_columns([f"record_{name}" for name in kept], "keep", fields.names)
    columns = [column(name).alias(f"record_{name}") for name in kept]
    text = F.col("value").cast("string")
    there = records.where(F.col("value").isNotNull())
    if broken == "fail":
        parsed = F.from_json(text, fields, {"mode": "FAILFAST"})
        return there.select(*columns, parsed.alias(_PARSED)).select(*_renamed(kept), *_fields_of(fields))
    with_broken = StructType([*fields.fields]).add(_BROKEN, "string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    rows = there.select(*columns, F.from_json(text, with_broken, options).alias(_PARSED))
    return rows.where(F.col(_PARSED)[_BROKEN].isNull()).select(*_renamed(kept), *_fields_of(fields))


def to_records(rows: DataFrame, *, key: str = "") -> DataFrame:
    """Return a `value` of JSON with all columns, and a `key` made of those named.

    The key of one column is its text; that of several is a JSON object, so that different keys never have the
    same text. Nulls are written. `parse` of the value returns the row: times keep their microseconds. A map
    with keys that are not text is written, but Spark cannot read it.
    """
    names = names_of(key, "key", rows.columns, may_be_empty=True)
    value = as_json(rows, rows.columns).alias("value")
    if not names:
        return rows.select(value)
    key_of = as_text(rows, names[0]) if len(names) == 1 else as_json(rows, names)
    return rows.select(key_of.alias("key"), value)


def _schema_of(text: str) -> StructType:
    try:
        schema = StructType.fromDDL(text)
    except ParseException as error:
        raise OptionError("schema", f"cannot be read: {error.getMessage() or error}") from None
    if not isinstance(schema, StructType):
        raise OptionError("schema", "is a single type; it must be names with their types")
    return schema


def _renamed(kept: list[str]) -> list[F.Column]:
    return [column(f"record_{name}") for name in kept]


def _fields_of(schema: StructType) -> list[F.Column]:
    return [F.col(_PARSED)[name].alias(name) for name in schema.names]
