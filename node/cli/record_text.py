"""Records as lines of text: the input of `ottla produce` and the output of `ottla consume`.

Both use the same JSON, so that the output of one is input for the other: "key" and "value" are text (the
input may also have any other JSON value, stored as JSON), replaced by "key_base64" and "value_base64" if the
bytes are not UTF-8.
"""

import base64
import binascii
import codecs
import json
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

from ottla.logstore.record import Headers, Record
from ottla.logstore.words.escaped_text import CONTROLS, escape_controls
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.exact_json import dump_json, load_json
from ottla.node.client.producer import ProducerRecord

MAX_INT64: Final = 2**63 - 1
# The last three are in the output of `ottla consume`; a producer cannot set them, so they have no effect.
_RECORD_NAMES: Final = (
    *("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"),
    *("topic", "offset", "delivery_count"),
)
_HEADER_NAMES: Final = ("key", "value", "value_base64")
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

Field = Callable[[TopicPartition, Record, int | None], bytes]


class Formatter(Protocol):
    """Formats a record as bytes to write: a line, or the text of a template.

    Records of a share group have a delivery count.
    """

    def __call__(
        self, partition: TopicPartition, record: Record, deliveries: int | None = None, /
    ) -> bytes: ...


# ---- input ---------------------------------------------------------------------------------------


def parse_line(line: bytes, *, key_separator: bytes | None, empty_as_null: bool) -> ProducerRecord:
    """Parse a plain line: the value, or key and value around the separator; ValueError if that is missing."""
    key, value = None, line
    if key_separator:
        key, separator, value = line.partition(key_separator)
        if not separator:
            shown = line[:80].decode("utf-8", "replace")
            raise ValueError(f"the key separator {key_separator.decode()!r} is not in {shown!r}")
    if empty_as_null:
        return ProducerRecord(key or None, value or None)
    return ProducerRecord(key, value)


def parse_json(line: bytes) -> ProducerRecord:
    """Parse a line that is a JSON object; ValueError with the reason."""
    try:
        # Files of Windows begin with the byte order mark.
        fields = load_json(line.removeprefix(codecs.BOM_UTF8))
    except ValueError as error:
        raise ValueError(
            f"this line is not JSON, or not JSON that can be stored unchanged: {error}"
        ) from None
    if not isinstance(fields, dict):
        raise ValueError("this line is not a JSON object")
    _check_names(fields, _RECORD_NAMES)
    return ProducerRecord(
        _bytes_of(fields, "key"),
        _bytes_of(fields, "value"),
        _headers_of(fields.get("headers")),
        _integer(fields, "partition", 2**31 - 1),
        _integer(fields, "timestamp", MAX_INT64),
    )


def _check_names(fields: dict[str, Any], known: tuple[str, ...]) -> None:
    """Raise ValueError for an unknown field: a misspelt name would lose its value."""
    unknown = next((name for name in fields if name not in known), None)
    if unknown is not None:
        raise ValueError(f"unknown field {unknown[:80]!r}; the fields are {', '.join(known)}")
    for name in ("key", "value"):
        if name in fields and f"{name}_base64" in fields:
            raise ValueError(f"both {name} and {name}_base64 are given; use one of them")


def _bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    """Return the bytes of a field, None if it is absent or null.

    They are decoded from base64, a string as UTF-8, or any other JSON value as JSON.
    """
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise ValueError(f"{name}_base64 is not base64") from None
    content = fields.get(name)
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    return dump_json(content)


def _headers_of(content: Any) -> Headers:
    """Return headers from an object, or from an array of objects if names are repeated.

    Each object in the array has a "key" and a "value".
    """
    if content is None:
        return ()
    if isinstance(content, dict):
        return tuple((name, _bytes_of({"value": value}, "value")) for name, value in content.items())
    if isinstance(content, list) and all(isinstance(one, dict) and "key" in one for one in content):
        for one in content:
            _check_names(one, _HEADER_NAMES)
        return tuple((str(one["key"]), _bytes_of(one, "value")) for one in content)
    raise ValueError('headers must be an object, or an array of {"key": ..., "value": ...}')


def _integer(fields: dict[str, Any], name: str, largest: int) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not -1 <= number <= largest:
        raise ValueError(f"{name} must be an integer from -1 to {largest}")
    return None if name == "partition" and number < 0 else number


# ---- output --------------------------------------------------------------------------------------


def escaped_for_terminal(content: bytes) -> bytes:
    r"""Return a field in a form safe for a terminal: no control characters but tab and line feed.

    Bytes that are not UTF-8 are shown as `\x9b`: an 8-bit terminal obeys some of them.
    """
    return escape_controls(content.decode("utf-8", "backslashreplace"), keeps_lines=True).encode()


def format_json(partition: TopicPartition, record: Record, deliveries: int | None = None, /) -> bytes:
    """Return a record as one line of JSON."""
    return _json_line(partition, record, deliveries).encode() + b"\n"


def format_json_for_terminal(
    partition: TopicPartition, record: Record, deliveries: int | None = None, /
) -> bytes:
    """Return a record as one line of JSON; control characters that JSON allows are escaped too."""
    line = _json_line(partition, record, deliveries)
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line).encode() + b"\n"


def _json_line(partition: TopicPartition, record: Record, deliveries: int | None) -> str:
    fields: dict[str, Any] = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_text_or_base64("key", record.key),
        **_text_or_base64("value", record.value),
    }
    if deliveries is not None:
        fields["delivery_count"] = deliveries
    if record.headers:
        fields["headers"] = [
            {"key": name.encode("utf-8", "replace").decode(), **_text_or_base64("value", value)}
            for name, value in record.headers
        ]
    return json.dumps(fields, ensure_ascii=False)


def _text_or_base64(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def column_formatter(shown: Collection[str], separator: str, *, for_terminal: bool = False) -> Formatter:
    """Return a formatter of the columns in `shown` and the value, in a fixed order."""
    fields = _TERMINAL_FIELDS if for_terminal else _FIELDS
    columns: list[Field] = [
        fields[letter]
        for name, letter in (
            ("deliveries", "d"),
            ("partitions", "p"),
            ("offsets", "o"),
            ("timestamps", "T"),
            ("headers", "h"),
            ("keys", "k"),
        )
        if name in shown
    ]
    if not columns and not for_terminal:
        return _value_line
    columns.append(fields["s"])
    between = separator.encode()

    def format_columns(partition: TopicPartition, record: Record, deliveries: int | None = None, /) -> bytes:
        return between.join(column(partition, record, deliveries) for column in columns) + b"\n"

    return format_columns


def _value_line(_: TopicPartition, record: Record, deliveries: int | None = None, /) -> bytes:
    return (record.value or b"") + b"\n"


def template_formatter(template: str, *, for_terminal: bool = False) -> Formatter:
    """Return a formatter of a template with %-letters as in kcat; ValueError for an unknown letter."""
    fields = _TERMINAL_FIELDS if for_terminal else _FIELDS
    parts: list[bytes | Field] = []
    position = 0
    while position < len(template):
        character = template[position]
        next_character = template[position + 1 : position + 2]
        position += 1
        if character == "\\" and next_character in _ESCAPES:
            parts.append(_ESCAPES[next_character])
            position += 1
        elif character == "%" and next_character == "%":
            parts.append(b"%")
            position += 1
        elif character == "%":
            if next_character not in _FIELDS:
                known = " ".join("%" + one for one in _FIELDS)
                raise ValueError(f"%{next_character} is not a field; use one of {known} %%")
            parts.append(fields[next_character])
            position += 1
        else:
            parts.append(character.encode("utf-8", "surrogateescape"))

    def format_template(partition: TopicPartition, record: Record, deliveries: int | None = None, /) -> bytes:
        return b"".join(
            part if isinstance(part, bytes) else part(partition, record, deliveries) for part in parts
        )

    return format_template


def _headers_text(headers: Headers) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (b"NULL" if value is None else value)
        for name, value in headers
    )


_FIELDS: Final[dict[str, Field]] = {
    "t": lambda partition, record, deliveries: partition.topic.encode(),
    "p": lambda partition, record, deliveries: b"%d" % partition.partition,
    "o": lambda partition, record, deliveries: b"%d" % record.offset,
    "T": lambda partition, record, deliveries: b"%d" % record.timestamp,
    "k": lambda partition, record, deliveries: record.key or b"",
    "s": lambda partition, record, deliveries: record.value or b"",
    "v": lambda partition, record, deliveries: record.value or b"",
    "h": lambda partition, record, deliveries: _headers_text(record.headers),
    "d": lambda partition, record, deliveries: b"" if deliveries is None else b"%d" % deliveries,
    "K": lambda partition, record, deliveries: b"%d" % (-1 if record.key is None else len(record.key)),
    "S": lambda partition, record, deliveries: b"%d" % (-1 if record.value is None else len(record.value)),
}


def _for_terminal(field: Field) -> Field:
    return lambda partition, record, deliveries: escaped_for_terminal(field(partition, record, deliveries))


_TERMINAL_FIELDS: Final = {letter: _for_terminal(field) for letter, field in _FIELDS.items()}
