"""The columns of the source: those of Spark's Kafka connector, either all or those that a schema names."""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.pipeline.words import OptionError

# In Spark's names of types, in the connector's order.
COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS: Final = "headers"
HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


def schema_text(*, include_headers: bool) -> str:
    """Return the schema as text that Spark reads."""
    columns = {**COLUMNS, HEADERS: HEADERS_TYPE} if include_headers else COLUMNS
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def check_columns(columns: Sequence[tuple[str, str, bool]], *, include_headers: bool) -> tuple[str, ...]:
    """Return the names of a schema's columns, given as (name, type, nullable); OptionError."""
    known = {**COLUMNS, HEADERS: HEADERS_TYPE}
    for name, kind, nullable in columns:
        option = f"column {name[:80]}"
        if name not in known:
            raise OptionError(option, f"is not a column of this source, which has {', '.join(known)}")
        if kind != known[name]:
            raise OptionError(option, f"is {kind}, but this source has {known[name]}: cast it in the query")
        if not nullable:
            raise OptionError(option, "is NOT NULL, but this source does not guarantee that")
        if name == HEADERS and not include_headers:
            raise OptionError(option, "needs the option includeHeaders=true")
    names = tuple(name for name, _, _ in columns)
    if len(set(names)) < len(names):
        raise OptionError("schema", "names a column twice")
    return names
