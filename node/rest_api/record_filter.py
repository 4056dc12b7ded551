"""Filters of records: those that contain a text, or with a JSON field that equals a value.

`TEXT` is searched in the bytes of key and value, case-sensitively. `$.PATH=VALUE` compares a field of the
value, `$key.PATH=VALUE` one of the key. A path has names and indexes, such as `.user.tags[0]`; a value is
JSON, or otherwise a text. Numbers are compared exactly, and never equal true or false.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from ottla.logstore.record import Record
from ottla.node.client.exact_json import is_same_json, load_for_comparison
from ottla.node.rest_api.rest_error import bad_request

Filter = Callable[[Record], bool]

MAX_FILTER_LENGTH: Final = 1000  # characters
_FIELD: Final = re.compile(r"\$(key)?((?:\.[^.=\[\]]+|\[\d{1,9}\])+)={1,2}(.*)", re.DOTALL | re.ASCII)
_STEP: Final = re.compile(r"\.([^.=\[\]]+)|\[(\d+)\]", re.ASCII)
_MISSING: Final = object()


def parse_filter(text: str) -> Filter:
    """Return the filter of a text; RestError 400 if it begins as a field filter but is malformed."""
    if not text.startswith(("$.", "$[", "$key.", "$key[")):
        return _with_text(text.encode("utf-8", "surrogatepass"))
    found = _FIELD.fullmatch(text)
    if found is None:
        raise bad_request("filter must be a text, or a field such as $.user.id=42.")
    path = [name or int(place) for name, place in _STEP.findall(found[2])]
    return _with_field(path, _value(found[3]), of_key=found[1] is not None)


def _with_text(wanted: bytes) -> Filter:
    return lambda record: wanted in (record.value or b"") or wanted in (record.key or b"")


def _value(text: str) -> Any:
    try:
        value = load_for_comparison(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return text
    return text if isinstance(value, orjson.Fragment) else value  # NaN, which equals nothing


def _with_field(path: list[str | int], wanted: Any, *, of_key: bool) -> Filter:
    def has_field(record: Record) -> bool:
        content = record.key if of_key else record.value
        try:
            found = _field(load_for_comparison(content or b""), path)
        except ValueError:
            return False
        return is_same_json(found, wanted)

    return has_field


def _field(content: Any, path: list[str | int]) -> Any:
    for step in path:
        if isinstance(content, dict):
            content = content.get(step, _MISSING)
        elif isinstance(content, list) and isinstance(step, int) and step < len(content):
            content = content[step]
        else:
            return _MISSING
    return content
