"""The options of a table in Spark's catalog, on their way from CREATE TABLE to whoever reads it.

Spark tells a source in Python the options of a table when it is made (each once more behind `option.`, and
among the properties of the table), and never again. It keeps the columns that the source gave, so the options
travel with those.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline.source.source_schema import COLUMNS, HEADERS

_PREFIX: Final = "option."
_KEY: Final = "ottla.options"
_TYPES: Final[Mapping[str, DataType]] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
}


def options_of_new_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of the table that is made; None if none is."""
    given = {name.lower(): value for name, value in options.items()}
    own = {name[len(_PREFIX) :]: value for name, value in given.items() if name.startswith(_PREFIX)}
    return own or None


def columns_with(options: Mapping[str, str], *, include_headers: bool) -> StructType:
    """Return the columns of a table, the first of which carries its options."""
    fields = [StructField(name, _TYPES[kind]) for name, kind in COLUMNS.items()]
    if include_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField(HEADERS, ArrayType(header)))
    fields[0].metadata = {_KEY: json.dumps(dict(options))}
    return StructType(fields)


def options_to_read(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a query, over those that the table has of which these are the columns."""
    found = [field.metadata[_KEY] for field in schema.fields if _KEY in (field.metadata or {})]
    kept: dict[str, str] = json.loads(found[0]) if found else {}
    return {**kept, **{name.lower(): value for name, value in options.items()}}
