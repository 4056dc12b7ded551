"""The options of a table in Spark's catalog, on their way from CREATE TABLE to its readers and writers.

Spark gives a source in Python the options of a table when it is created (each of them also behind `option.`,
and among the properties of the table), and never again. It keeps the columns that the source returned, so the
options travel with those: a reader is given the columns of the table, and so is the writer of an INSERT.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
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

from ottla.pipeline.client.setting_files import is_kept_in_files
from ottla.pipeline.client.setting_names import PREFIX, is_secret
from ottla.pipeline.sink.sink_options import OWN as OF_THE_SINK
from ottla.pipeline.source.option_names import HONOURED as SOURCE_OPTIONS
from ottla.pipeline.source.option_names import REFUSED, SUBSCRIPTIONS
from ottla.pipeline.source.source_schema import COLUMNS, HEADERS
from ottla.pipeline.words import OptionError, with_nearest

_PREFIX: Final = "option."
_KEY: Final = "ottla.options"
# The columns that carry the options: no row has a value in them before it is in a log.
LOG_COLUMNS: Final = ("offset", "timestampType")
_CLUSTER: Final = "kafka.bootstrap.servers"
_TYPES: Final[Mapping[str, DataType]] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
}


def options_of_new_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is being created, or None if `options` are of none.

    Raises OptionError for an option that this format does not have, and for a secret that is written out.
    """
    given = _in_lower_case(options)
    own = {name[len(_PREFIX) :]: value for name, value in given.items() if name.startswith(_PREFIX)}
    known = {name.lower() for name in (*SOURCE_OPTIONS, *OF_THE_SINK, *REFUSED)}
    for name in own:
        if name not in known and not name.startswith(PREFIX):
            raise OptionError(
                name, with_nearest("is not an option of this format", name, (*SOURCE_OPTIONS, *OF_THE_SINK))
            )
    for name, value in own.items():
        # DESCRIBE shows them, the catalog keeps them, and they are written into files with the columns.
        if is_secret(name) and value.strip() and not is_kept_in_files(name, value):
            raise OptionError(
                name,
                "is a secret, which every user with access to the table could read: write it into a file of "
                "properties, and ${file:/PATH:KEY} in its place",
            )
    return own or None


def columns_with(options: Mapping[str, str], *, include_headers: bool) -> StructType:
    """Return the columns of a table, some of which carry its options."""
    fields = [StructField(name, _TYPES[kind]) for name, kind in COLUMNS.items()]
    if include_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField(HEADERS, ArrayType(header)))
    for field in fields:
        if field.name in LOG_COLUMNS:
            field.metadata = {_KEY: json.dumps(dict(options))}
    return StructType(fields)


def options_to_read(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a query, on top of those of the table that these columns belong to."""
    given = _in_lower_case(options)
    table = next((one for field in schema.fields if (one := _options_in(field)) is not None), None)
    if table is None:
        _check_cluster(given)
    return {**options_for_source(table or {}), **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write. With `is_insert`, its rows must have no values in `LOG_COLUMNS`.

    A frame that was read from a table has that table's columns wherever it is written, and Spark
    distinguishes an INSERT from other writes by nothing else. But rows that were read have an offset, and
    inserted rows have none.
    """

    options: Mapping[str, str]
    is_insert: bool


def options_to_write(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    """Return the options of a write, on top of those of the table if it is an INSERT into one.

    A write that names its own cluster takes nothing from a table.
    """
    given = _in_lower_case(options)
    found = [_options_in(field) for field in schema.fields if field.name in LOG_COLUMNS]
    is_whole = set(COLUMNS) <= set(schema.names) and len(found) == len(LOG_COLUMNS)
    table = found[0] if is_whole and all(one == found[0] for one in found) else None
    if table is None or _CLUSTER in given:
        _check_cluster(given)
        return WriteOptions(options=given, is_insert=False)
    return WriteOptions(options={**options_for_sink(table), **given}, is_insert=True)


def new_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an INSERT; OptionError for one that was read from a topic, with its offset."""
    for batch in batches:
        for name in LOG_COLUMNS:
            column = batch.column(batch.schema.get_field_index(name))
            if column.null_count < len(column):
                raise OptionError(
                    f"column {name}",
                    "is given by the log and cannot be written. Name the columns that can, as in"
                    " INSERT INTO t (key, value) SELECT key, value FROM ...; what was read from a table is"
                    f" written elsewhere with {_CLUSTER} and topic among the options of the write",
                )
        yield batch


def options_for_source(table: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table that are for reading; `topic` alone also names what is read."""
    found = _without(table, OF_THE_SINK)
    if "topic" in table and not any(name.lower() in table for name in SUBSCRIPTIONS):
        found["subscribe"] = table["topic"]
    return found


def options_for_sink(table: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table that are for writing; a single topic is both read and written."""
    found = _without(table, SOURCE_OPTIONS)
    subscribed = table.get("subscribe", "").strip()
    if "topic" not in found and subscribed and "," not in subscribed:
        found["topic"] = subscribed
    return found


def _without(table: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    others = {name.lower() for name in names}
    return {name: value for name, value in table.items() if name not in others}


def _options_in(field: StructField) -> dict[str, str] | None:
    """Return the options of the table whose column this is; None if it belongs to no table."""
    found: dict[str, str] | None = json.loads((field.metadata or {}).get(_KEY, "null"))
    return found


def _check_cluster(options: Mapping[str, str]) -> None:
    if _CLUSTER not in options:
        raise OptionError(
            _CLUSTER,
            "is missing: say which cluster, host:port[,host:port]. A table of the catalog has its options"
            " only if CREATE TABLE neither names columns nor has AS SELECT;"
            ' else say format("ottla").option(...) in place of its name',
        )


def _in_lower_case(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}
