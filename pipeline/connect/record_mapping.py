"""Rows of any columns into records of a topic: a key and a value, by Spark's own expressions."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame

from pipeline.option_values import OptionValues
from pipeline.row_texts import as_json, as_text
from pipeline.words import OptionError

OUTPUTS: Final = ("records", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMapping:
    """Which columns make the key (none: no key) and the value (None: all of them as a JSON object).

    `is_rows`: the columns stay as they are, for a transformation to make records of.
    """

    key: tuple[str, ...] = ()
    value: str | None = None
    is_rows: bool = False

    @classmethod
    def read(cls, values: OptionValues) -> "RecordMapping":
        """The options `key`, `value` and `output`."""
        mapping = cls(
            key=values.names("key"),
            value=values.optional("value"),
            is_rows=values.choice("output", OUTPUTS, "records") == "rows",
        )
        if mapping.is_rows and (mapping.key or mapping.value):
            raise OptionError("output", "is rows, which have neither key nor value: leave these out")
        return mapping


def to_records(frame: DataFrame, mapping: RecordMapping, headers: Column | None = None) -> DataFrame:
    """Columns `key` and `headers` (where there are any) and `value`; OptionError for one that is not there.

    One column of a key is its text (binary as it is); several are a JSON object. JSON has nulls as null.
    """
    if mapping.is_rows:
        return frame
    more = [] if headers is None else [headers.alias("headers")]
    for option, names in (("key", mapping.key), ("value", (mapping.value,) if mapping.value else ())):
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise OptionError(option, f"names {missing[0]}, but the columns are {', '.join(frame.columns)}")
    value = as_text(frame, mapping.value) if mapping.value else as_json(frame, tuple(frame.columns))
    if not mapping.key:
        return frame.select(value.alias("value"), *more)
    key = as_text(frame, mapping.key[0]) if len(mapping.key) == 1 else as_json(frame, mapping.key)
    return frame.select(key.alias("key"), value.alias("value"), *more)
