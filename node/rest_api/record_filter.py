"""Which records a reader wants: those that have a text in them, or a JSON field that equals something.

`TEXT` is looked for in key and value, as bytes, in this very case. `$.PATH=VALUE` compares a field of the
value, `$key.PATH=VALUE` one of the key: a path is names and places as `.user.tags[0]`, a value is JSON, or
else a text. Numbers are compared by their exact value, and are neither true nor false.
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
    """What a filter means; RestError 400 for one that begins as a field and is none."""
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
    return text if isinstance(value, orjson.Fragment) else value  # NaN, which nothing equals


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
