"""Records in the JSON of Confluent's REST API, in both directions.

Input: `partition_id`, `headers` (values in base64), `key` and `value` as {"type": ..., "data": ...},
`timestamp` (RFC 3339). The type is BINARY (base64), STRING or JSON (stored compactly); null data is a null
key or value. Types that need a schema registry are rejected. Output: the same fields; the type of a key or
value is the encoding of its data.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from ottla.logstore.record import Headers, Record
from ottla.node.client.exact_json import COMPARED_PARTS, check_parts, dump_json
from ottla.node.client.producer import ProducerRecord
from ottla.node.rest_api.rest_error import PARTITION_NOT_FOUND, RestError, invalid_payload

BINARY, STRING, JSON = "BINARY", "STRING", "JSON"
AUTO: Final = "AUTO"
FORMATS: Final = (AUTO, BINARY, STRING, JSON)  # that a reader may choose

MAX_PARTITION: Final = 2**31 - 1
MAX_HEADERS: Final = 1000  # of a record: far more than any producer sends
MAX_SHOWN: Final = 100  # characters of a client's text that an error repeats

_FIELDS: Final = frozenset({"partition_id", "headers", "key", "value", "timestamp"})
_DATA_FIELDS: Final = frozenset({"type", "data"})
_SCHEMA_FIELDS: Final = frozenset(
    {"subject", "subject_name_strategy", "schema_id", "schema_version", "schema"}
)
_SCHEMA_TYPES: Final = frozenset({"AVRO", "JSONSCHEMA", "PROTOBUF"})
_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MOMENT_MS: Final = 253_402_300_799_999  # the end of the year 9999, where dates of Python end


class ParsedRecord(NamedTuple):
    """A record to be stored, and the types of its key and value, which the answer repeats."""

    record: ProducerRecord
    key_type: str | None
    value_type: str | None


# ---- in ------------------------------------------------------------------------------------------


def parse_record(document: Any) -> ParsedRecord:
    """Return the record of a document; RestError with the code of this record's answer."""
    if document.__class__ is not dict:
        raise _bad("a record must be a JSON object.")
    if not document.keys() <= _FIELDS:
        unknown = min(document.keys() - _FIELDS)
        raise _bad(f"Unrecognized field {_shown(unknown)}.")
    key, key_type = _content(document.get("key"), "key")
    value, value_type = _content(document.get("value"), "value")
    headers, partition = document.get("headers"), document.get("partition_id")
    timestamp = document.get("timestamp")
    return ParsedRecord(
        ProducerRecord(
            key,
            value,
            _headers(headers) if headers else (),
            None if partition is None else _partition(partition),
            None if timestamp is None else _timestamp(timestamp),
        ),
        key_type,
        value_type,
    )


def _content(content: Any, name: str) -> tuple[bytes | None, str | None]:
    """Return the bytes of a key or value, and its type."""
    if content is None:
        return None, None
    if content.__class__ is not dict:
        raise _bad(f"{name} must be an object with type and data.")
    kind: Any = content.get("type")
    data = content.get("data")
    if kind.__class__ is not str or kind not in _ENCODERS or not content.keys() <= _DATA_FIELDS:
        _refuse_content(content, name, kind if isinstance(kind, str) else _shown(kind))
    return None if data is None else _ENCODERS[kind](data), kind


def _refuse_content(content: Mapping[str, Any], name: str, kind: str) -> None:
    for field in sorted(content.keys() - _DATA_FIELDS):
        if field not in _SCHEMA_FIELDS:
            raise _bad(f"Unrecognized field {_shown(field)} in {name}.")
        if kind in _ENCODERS and content[field] is not None:
            raise _bad(f"'type={kind}' cannot be used with '{field}'.")
    if kind in _ENCODERS:
        return
    if content.get("type") is None or kind in _SCHEMA_TYPES:
        raise invalid_payload(
            "Schema Registry must be configured when using schemas. Without one, the type of a "
            f"{name} is BINARY, STRING or JSON."
        )
    raise _bad(f"type={_shown(kind)} of {name} must be one of BINARY, STRING, JSON.")


def _from_binary(data: Any) -> bytes:
    if data.__class__ is not str:
        raise _bad(f"data={_shown(data)} is not a base64 string.")
    return _from_base64(data)


def _from_base64(text: str) -> bytes:
    try:
        # Padding may be missing: the library of Confluent's server accepts that.
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise _bad(f"data={_shown(text)} is not a valid base64 string.") from None


def _from_string(data: Any) -> bytes:
    if data.__class__ is not str:
        raise _bad(f"data={_shown(data)} is not a string.")
    encoded: bytes = data.encode()
    return encoded


def _from_json(data: Any) -> bytes:
    try:
        return dump_json(data)
    except ValueError:
        raise _bad("data is nested too deeply.") from None


_ENCODERS: Final = {BINARY: _from_binary, STRING: _from_string, JSON: _from_json}


def _headers(content: Any) -> Headers:
    if content.__class__ is not list or len(content) > MAX_HEADERS:
        raise _bad(f"headers must be an array of at most {MAX_HEADERS} objects with name and value.")
    found: list[tuple[str, bytes | None]] = []
    for one in content:
        if one.__class__ is not dict or not one.keys() <= {"name", "value"}:
            raise _bad(f"{_shown(one)} in headers must be an object with name and value.")
        name, value = one.get("name"), one.get("value")
        if name.__class__ is not str:
            raise _bad("a header has no name.")
        found.append((name, None if value is None else _from_binary(value)))
    return tuple(found)


def _partition(number: Any) -> int:
    if number.__class__ is not int:
        raise _bad(f"partition_id={_shown(number)} is not an integer.")
    if not 0 <= number <= MAX_PARTITION:
        raise RestError(404, PARTITION_NOT_FOUND, "Partition not found.")
    found: int = number
    return found


def _timestamp(text: Any) -> int:
    if text.__class__ is not str:
        raise _bad(f"timestamp={_shown(text)} is not a date and time such as 2021-02-05T19:14:42Z.")
    return parse_timestamp(text)


def parse_timestamp(text: str) -> int:
    """Return an RFC 3339 date and time in milliseconds since 1970; RestError 400."""
    try:
        if _MOMENT.fullmatch(text):
            milliseconds = (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
            if milliseconds >= 0:
                return milliseconds
    except (ValueError, OverflowError):
        pass
    raise _bad(f"timestamp={_shown(text)} is not a date and time since 1970 such as 2021-02-05T19:14:42Z.")


def _shown(content: Any) -> str:
    """Return the beginning of a client's text, to quote it in an error."""
    try:
        text = content if isinstance(content, str) else dump_json(content).decode()
    except ValueError:
        return "data that is nested too deeply"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _bad(detail: str) -> RestError:
    return RestError(400, 400, f"Bad Request: {detail}")


# ---- out -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)  # the records of a batch often have the same millisecond
def instant(milliseconds: int) -> str | None:
    """Return a time as Java writes an Instant; None for no timestamp and beyond the year 9999."""
    if not 0 <= milliseconds <= _MAX_MOMENT_MS:
        return None
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = milliseconds % 1000
    return f"{text}.{fraction:03}Z" if fraction else f"{text}Z"


def report_place(cluster_id: str, topic: str) -> str:
    """Return the fields with which each delivery report of a topic begins."""
    return orjson.dumps({"cluster_id": cluster_id, "topic_name": topic})[1:-1].decode()


def delivery_report(parsed: ParsedRecord, place: str, partition: int, offset: int, timestamp: int) -> str:
    """Return the answer for a stored record, without its `error_code` or `id`: JSON fields without braces.

    Built by hand, at a third of the cost of a dict and its encoding. `place` is from `report_place`.
    """
    moment = instant(timestamp)
    quoted = "null" if moment is None else f'"{moment}"'
    report = f'{place},"partition_id":{partition},"offset":{offset},"timestamp":{quoted}'
    record = parsed.record
    if parsed.key_type is not None:
        size = -1 if record.key is None else len(record.key)
        report += f',"key":{{"type":"{parsed.key_type}","size":{size}}}'
    if parsed.value_type is not None:
        size = -1 if record.value is None else len(record.value)
        report += f',"value":{{"type":"{parsed.value_type}","size":{size}}}'
    return report


def shown_record(topic: str, partition: int, record: Record, form: str) -> dict[str, Any]:
    """Return a record that was read as JSON; `form` is one of FORMATS."""
    return {
        "topic_name": topic,
        "partition_id": partition,
        "offset": record.offset,
        "timestamp": instant(record.timestamp),
        "timestamp_ms": record.timestamp,
        "headers": [
            {
                "name": name.encode("utf-8", "replace").decode(),
                "value": None if value is None else base64.b64encode(value).decode(),
            }
            for name, value in record.headers
        ],
        "key": _shown_content(record.key, form),
        "value": _shown_content(record.value, form),
    }


def _shown_content(content: bytes | None, form: str) -> dict[str, Any] | None:
    """Return bytes in the requested form, or in the next one that can hold them: JSON, text, base64."""
    if content is None:
        return None
    size = len(content)
    # In AUTO the text "42" stays a text: only objects and arrays are taken for JSON.
    if form == JSON or (form == AUTO and content[:1] in (b"{", b"[")):
        try:
            check_parts(content, COMPARED_PARTS)
            orjson.loads(content)
        except ValueError:
            pass  # not JSON, or with so many values that parsing would delay other requests
        else:
            # As stored, with all digits of its numbers; a line end between its tokens becomes a space.
            text = content.replace(b"\n", b" ").replace(b"\r", b" ")
            return {"type": JSON, "size": size, "data": orjson.Fragment(text)}
    if form != BINARY:
        try:
            return {"type": STRING, "size": size, "data": content.decode()}
        except UnicodeDecodeError:
            pass
    return {"type": BINARY, "size": size, "data": base64.b64encode(content).decode()}
