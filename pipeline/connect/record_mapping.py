"""Maps rows of any columns to records of a topic: a key and a value, by Spark's own expressions."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame

from ottla.pipeline.option_values import OptionValues
from ottla.pipeline.row_texts import as_json, as_text, column
from ottla.pipeline.words import OptionError

OUTPUTS: Final = ("records", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMapping:
    """The columns that make the key (none: no key) and the value (None: all of them as a JSON object).

    With `is_rows` the columns stay as they are, for a transformation that makes records of them.
    """

    key: tuple[str, ...] = ()
    value: str | None = None
    is_rows: bool = False

    @classmethod
    def read(cls, values: OptionValues) -> "RecordMapping":
        """Read the options `key`, `value` and `output`."""
        mapping = cls(
            key=values.names("key"),
            value=values.optional("value"),
            is_rows=values.choice("output", OUTPUTS, "records") == "rows",
        )
        if mapping.is_rows and (mapping.key or mapping.value):
            raise OptionError("output", "is rows, which have neither key nor value: remove these options")
        return mapping


def to_records(
    frame: DataFrame, mapping: RecordMapping, headers: Column | None = None, texts: str | None = None
) -> DataFrame:
    """Return `value`, and `key` and `headers` if there are any; OptionError for a missing column.

    If the mapping keeps rows (`is_rows`), the frame is returned as it is.
    A key of one column is its text (binary as it is); of several, a JSON object. In JSON nulls are null.
    `texts` names the column of `row_texts.as_json`, which is no field of a record itself.
    """
    if mapping.is_rows:
        return frame
    names = [name for name in frame.columns if name != texts]
    found = None if texts is None else column(texts)
    more = [] if headers is None else [headers.alias("headers")]
    for option, columns in (("key", mapping.key), ("value", (mapping.value,) if mapping.value else ())):
        missing = [name for name in columns if name not in names]
        if missing:
            raise OptionError(option, f"names {missing[0]}, but the columns are {', '.join(names)}")
    value = as_text(frame, mapping.value, found) if mapping.value else as_json(frame, names, found)
    if not mapping.key:
        return frame.select(value.alias("value"), *more)
    is_one = len(mapping.key) == 1
    key = as_text(frame, mapping.key[0], found) if is_one else as_json(frame, mapping.key, found)
    return frame.select(key.alias("key"), value.alias("value"), *more)
