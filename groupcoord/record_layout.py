"""Encodes and decodes kinds of records in `__consumer_offsets` whose schemas have one version.

A key is the number of the kind as int16 and its strings; a value is the int16 version of its schema (0) and
its fields. A record is a tuple of the strings of its key and its value; None is a tombstone.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.logstore.words import schema, schema_compiler
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer

Kind: TypeAlias = type[Any]  # a class of records, or the schema of a key or value
LaidOut: TypeAlias = tuple[Any, ...]  # a record


class Layout(NamedTuple):
    """The layout of one kind of record: its number in the key, and the schemas of its key and value."""

    kind: int
    key: Kind
    value: Kind


Layouts: TypeAlias = Mapping[Kind, Layout]


def encode_key_of(record: LaidOut, layout: Layout) -> bytes:
    """Return the key of a record of that layout."""
    names = [field.name for field in schema.schema_of(layout.key).fields]
    key = layout.key(**dict(zip(names, record[:-1], strict=True)))
    return layout.kind.to_bytes(2) + schema_compiler.encode(key, 0)


def encode_value_of(record: LaidOut) -> bytes | None:
    """Return the value of a record, or None for a tombstone."""
    value = record[-1]
    return None if value is None else b"\0\0" + schema_compiler.encode(value, 0)


def decode_by_layout(layouts: Layouts, record: Kind, key: Buffer, value: Buffer | None) -> LaidOut:
    """Return a record of one of these layouts; KafkaError for bytes that are no such record."""
    layout = layouts[record]
    decoded_key, _ = schema_compiler.decoder(layout.key, 0)(key, 2)
    decoded_value = None
    if value is not None:
        version = int.from_bytes(value[:2]) if len(value) >= 2 else -1
        if version != 0:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"a {layout.value.__name__} has the unknown version {version}"
            )
        decoded_value, _ = schema_compiler.decoder(layout.value, 0)(value, 2)
    made: LaidOut = record(*(getattr(decoded_key, field) for field in record._fields[:-1]), decoded_value)
    return made
