"""Columns of rows as text, for keys and values of records, without loss.

Spark's `to_json` alone cuts a time to milliseconds, and it writes map keys that are not text as Java prints
them: a date as a number of days, bytes as the address of an array.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_OPTIONS: Final = {"ignoreNullFields": "false"}
# Databases have values of these types that Spark's types lack.
_MAY_BE_TEXT: Final = (DateType, TimestampType, TimestampNTZType, DecimalType)


def quoted(name: str) -> str:
    """Return the name in backticks: without them Spark takes `a.b` for the field `b` of `a`."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """Return the column of exactly this name, whatever characters are in it."""
    return F.col(quoted(name))


def as_json(frame: DataFrame, names: Sequence[str], texts: Column | None = None) -> Column:
    """Return a JSON object of these columns, nulls included.

    Bytes are base64, as Kafka Connect's JsonConverter writes them. Times have milliseconds, and microseconds
    where they need them. `texts` is a map, by column, of the texts of those values of a row that the types of
    their columns cannot represent; each text takes the place of its value.
    """
    whole = _object([_field(frame, name) for name in names])
    if texts is None:
        return whole
    # Few rows have such texts, and only those rows are assembled piece by piece.
    pieces: list[Column] = []
    run: list[Column] = []
    for name in names:
        if isinstance(frame.schema[name].dataType, _MAY_BE_TEXT):
            pieces += [_inner(_object(run))] if run else []
            text = texts[name]
            found = F.when(text.isNotNull(), _object([text.alias(name)])).otherwise(
                _object([_field(frame, name)])
            )
            pieces.append(_inner(found))
            run = []
        else:
            run.append(_field(frame, name))
    pieces += [_inner(_object(run))] if run else []
    return F.when(texts.isNull(), whole).otherwise(
        F.concat(F.lit("{"), F.concat_ws(",", *pieces), F.lit("}"))
    )


def as_text(frame: DataFrame, name: str, texts: Column | None = None) -> Column:
    """Return the text of a column: bytes as they are, JSON of nested values, Spark's text of others.

    `texts` is as for `as_json`.
    """
    value, kind = column(name), frame.schema[name].dataType
    if isinstance(kind, BinaryType):
        return value
    text = _text(value, kind)
    return text if texts is None or not isinstance(kind, _MAY_BE_TEXT) else F.coalesce(text, texts[name])


def _field(frame: DataFrame, name: str) -> Column:
    return _for_json(column(name), frame.schema[name].dataType).alias(name)


def _object(fields: Sequence[Column]) -> Column:
    return F.to_json(F.struct(*fields), _OPTIONS)


def _inner(json_object: Column) -> Column:
    """Return the text of an object without its braces."""
    return F.substring(json_object, F.lit(2), F.length(json_object) - 2)


def _text(value: Column, kind: DataType) -> Column:
    if isinstance(kind, StructType | ArrayType | MapType):
        return F.to_json(_for_json(value, kind), _OPTIONS)
    text = value.cast("string")
    if isinstance(kind, TimestampType):
        # In the hour that a clock is set back, two moments have one wall time: the later is written with its
        # offset.
        is_plain = text.try_cast("timestamp") == value
        return F.when(is_plain | value.isNull(), text).otherwise(F.concat(text, _offset_of(value)))
    return text


def _for_json(value: Column, kind: DataType) -> Column:
    """Return the value in a type that `to_json` writes without loss."""
    if _is_whole(kind):
        return value
    match kind:
        case StructType():
            parts = [_for_json(value[part.name], part.dataType).alias(part.name) for part in kind.fields]
            return F.when(value.isNotNull(), F.struct(*parts))
        case ArrayType():
            return F.transform(value, lambda one: _for_json(one, kind.elementType))
        case MapType():
            found = F.transform_values(value, lambda _key, one: _for_json(one, kind.valueType))
            return F.transform_keys(found, lambda key, _one: _map_key(key, kind.keyType))
        case _:
            return _time_for_json(value, kind)


def _is_whole(kind: DataType) -> bool:
    """Return True if `to_json` writes values of this type without loss."""
    match kind:
        case StructType():
            return all(_is_whole(part.dataType) for part in kind.fields)
        case ArrayType():
            return _is_whole(kind.elementType)
        case MapType():
            return not _is_not_text_key(kind.keyType) and _is_whole(kind.valueType)
        case _:
            return not isinstance(kind, TimestampType | TimestampNTZType)


def _is_not_text_key(kind: DataType) -> bool:
    not_text = StructType | ArrayType | BinaryType | DateType | TimestampType | TimestampNTZType
    return isinstance(kind, not_text)


def _map_key(key: Column, kind: DataType) -> Column:
    """Return the key as text, since JSON has no other keys, written as its value would be."""
    match kind:
        case BinaryType():
            return F.base64(key)
        case TimestampType() | TimestampNTZType():
            return _time_for_json(key, kind)
        case _:
            return _text(key, kind) if _is_not_text_key(kind) else key


def _time_for_json(value: Column, kind: DataType) -> Column:
    """Return a time in ISO 8601, with the offset of the session's time zone if its type is a moment.

    It has three digits after the second, as Spark and JavaScript write, and six only where three are not
    enough: so copied records stay as they are. `date_format` would not do: it knows moments only, and would
    move a wall time that is skipped when a clock is set forward.
    """
    text = value.cast("string")
    point = F.instr(text, ".")
    digits = F.when(point > 0, F.substring(text, point + 1, F.lit(6))).otherwise("")
    padded = F.rpad(digits, F.when(F.length(digits) > 3, 6).otherwise(3), F.lit("0"))
    whole = F.replace(F.substring_index(text, ".", 1), F.lit(" "), F.lit("T"))
    offset = [_offset_of(value)] if isinstance(kind, TimestampType) else []
    return F.concat(whole, F.lit("."), padded, *offset)


def _offset_of(value: Column) -> Column:
    return F.date_format(value, "XXXXX")
