"""Validation of JSON values: the part of JSON Schema 2020-12 that the API's bodies need.

The OpenAPI document has the same schemas, so documentation and validation cannot differ. Supported are `type`
(a name or a list of names), `enum`, `properties`, `required`, `additionalProperties`, `items`, `minItems`,
`maxItems`, `minimum`, `maximum`, `minLength`, `maxLength`, `pattern` and `anyOf`; keywords that only describe
(`title`, `description`, `format`, `default`, `examples`) are ignored.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

Schema = Mapping[str, Any]
Json = Any  # a parsed JSON value, whose type a schema defines

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def problem_of(value: Json, schema: Schema, path: str = "") -> str | None:
    """Return the first mistake in a value, as a sentence without its full stop, or None if it is valid.

    `path` is the path to the value within the body, such as `configs[0].name`.
    """
    options = schema.get("anyOf")
    if options is not None:
        problems = [problem_of(value, option, path) for option in options]
        return None if None in problems else problems[0]
    allowed = schema.get("enum")
    if allowed is not None and (value not in allowed or isinstance(value, bool)):
        return f"{path or 'the body'} must be one of {', '.join(map(str, allowed))}"
    if not _has_type(value, schema):
        names = schema["type"]
        wanted = names if isinstance(names, str) else " or ".join(names)
        return f"{path or 'the body'} must be {'an' if wanted[0] in 'aeio' else 'a'} {wanted}"
    if isinstance(value, dict):
        return _problem_of_object(value, schema, path)
    if isinstance(value, list):
        return _problem_of_array(value, schema, path)
    if isinstance(value, str):
        return _problem_of_string(value, schema, path)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _problem_of_number(value, schema, path)
    return None


def _has_type(value: Json, schema: Schema) -> bool:
    names = schema.get("type")
    if names is None:
        return True
    for name in (names,) if isinstance(names, str) else names:
        # In Python, a bool is an int.
        if isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)):
            return True
    return False


def _problem_of_object(value: Mapping[str, Json], schema: Schema, path: str) -> str | None:
    known: Mapping[str, Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{_within(path, name)} is missing"
    others = schema.get("additionalProperties", True)
    for name, one in value.items():
        expected = known.get(name)
        if expected is None:
            if others is False:
                return f"{_within(path, name[:100])} is unknown"
            if others is True:
                continue
            expected = others
        problem = problem_of(one, expected, _within(path, name[:100]))
        if problem is not None:
            return problem
    return None


def _within(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _problem_of_array(value: list[Json], schema: Schema, path: str) -> str | None:
    if len(value) < schema.get("minItems", 0):
        return f"{path or 'the body'} needs at least {schema['minItems']} entries"
    if len(value) > schema.get("maxItems", len(value)):
        return f"{path or 'the body'} has more than {schema['maxItems']} entries"
    items = schema.get("items")
    if items is not None:
        for index, one in enumerate(value):
            problem = problem_of(one, items, f"{path}[{index}]")
            if problem is not None:
                return problem
    return None


def _problem_of_string(value: str, schema: Schema, path: str) -> str | None:
    if len(value) < schema.get("minLength", 0):
        return f"{path} needs at least {schema['minLength']} characters"
    if len(value) > schema.get("maxLength", len(value)):
        return f"{path} has more than {schema['maxLength']} characters"
    pattern = schema.get("pattern")
    if pattern is not None and _compiled(pattern).search(value) is None:
        return f"{path} does not match {pattern}"
    return None


def _problem_of_number(value: float, schema: Schema, path: str) -> str | None:
    if value < schema.get("minimum", value):
        return f"{path} must be at least {schema['minimum']}"
    if value > schema.get("maximum", value):
        return f"{path} must be at most {schema['maximum']}"
    return None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Python's $ also matches before a final line end; that of JSON Schema does not.
    return re.compile(f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern)
