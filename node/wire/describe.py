"""Messages as readable text, for the tools and for logs.

UUIDs are printed as in Kafka, other bytes as hex and record batches as their size. Long bytes, arrays and
lines are cut, since a reader needs the shape of a message.
"""

import json

from ottla.logstore.words.schema import SECRET, Field, Kind, is_secret, schema_of
from ottla.logstore.words.topic_partition import uuid_to_text

MAX_BYTES = 64  # of a bytes field: enough to recognize a member's metadata
MAX_ELEMENTS = 1000  # of an array: a dump is read by people
MAX_LINE_CHARACTERS = 2000

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def describe(message: object, version: int | None = None) -> dict[str, Json]:
    """Return a message or struct as values for JSON; with a version, only the fields of that version."""
    described: dict[str, Json] = {}
    for field in schema_of(type(message)).fields:
        if version is None or field.is_in(version):
            value = _describe_field(field, getattr(message, field.name), version)
            is_hidden = value is not None and is_secret(message, field.name)
            described[field.name.rstrip("_")] = SECRET if is_hidden else value
    return described


def describe_line(message: object, version: int | None = None) -> str:
    """Return a message as one line: its class, its version and the fields that differ from their default."""
    named = "" if version is None else f" v{version}"
    line = f"{type(message).__name__}{named} {_changed(message, version)}"
    return line if len(line) <= MAX_LINE_CHARACTERS else f"{line[: MAX_LINE_CHARACTERS - 3]}..."


def _changed(message: object, version: int | None) -> str:
    words = []
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        is_default = value == field.default or (field.default == () and not value)
        if is_default or not (version is None or field.is_in(version)):
            continue
        if is_secret(message, field.name):
            words.append(f"{field.name}={SECRET}")
        elif field.kind is Kind.STRUCT and value is not None:
            many = value[:MAX_ELEMENTS] if field.is_array else [value]
            text = ", ".join(_changed(one, version) for one in many)
            words.append(f"{field.name}=[{text}]" if field.is_array else f"{field.name}={text}")
        else:
            words.append(
                f"{field.name}={json.dumps(_describe_field(field, value, version), ensure_ascii=False)}"
            )
    return f"({' '.join(words)})"


def _describe_field(field: Field, value: object, version: int | None) -> Json:
    if value is None:
        return None
    if not field.is_array:
        return _describe_value(field.kind, value, version)
    assert isinstance(value, list | tuple)
    described = [_describe_value(field.kind, one, version) for one in value[:MAX_ELEMENTS]]
    if len(value) > MAX_ELEMENTS:
        described.append(f"... {len(value) - MAX_ELEMENTS} more")
    return described


def _describe_value(kind: Kind, value: object, version: int | None) -> Json:
    if kind is Kind.STRUCT:
        return describe(value, version)
    if kind is Kind.UUID:
        assert isinstance(value, bytes)
        return uuid_to_text(value)
    if kind is Kind.RECORDS:
        buffers = value if isinstance(value, list | tuple) else [value]
        return f"{sum(map(len, buffers))} bytes of records"
    if kind is Kind.BYTES:
        assert isinstance(value, bytes | bytearray | memoryview)
        text = bytes(value[:MAX_BYTES]).hex()
        return text if len(value) <= MAX_BYTES else f"{text}... {len(value)} bytes"
    assert isinstance(value, bool | int | float | str)
    return value
