"""JSON values against the part of JSON Schema that the API uses, compared with the library jsonschema."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ottla.node.rest_api.json_schema import problem_of

NAMED = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 5}, "count": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
CASES: list[tuple[Any, dict[str, Any], str | None]] = [
    ({"name": "a"}, NAMED, None),
    ({"name": "a", "count": 3}, NAMED, None),
    ({}, NAMED, "name is missing"),
    ({"name": ""}, NAMED, "name needs at least 1 characters"),
    ({"name": "abcdef"}, NAMED, "name has more than 5 characters"),
    ({"name": 1}, NAMED, "name must be a string"),
    ({"name": "a", "count": "3"}, NAMED, "count must be an integer"),
    ({"name": "a", "count": True}, NAMED, "count must be an integer"),
    ({"name": "a", "other": 1}, NAMED, "other is unknown"),
    ([], NAMED, "the body must be an object"),
    (None, NAMED, "the body must be an object"),
    (None, {"type": ["object", "null"]}, None),
    (True, {"type": "integer"}, "the body must be an integer"),
    (True, {"type": ["integer", "boolean"]}, None),
    (1.5, {"type": "number", "minimum": 2}, " must be at least 2"),
    (9, {"type": "integer", "maximum": 8}, " must be at most 8"),
    ("SET", {"enum": ["SET", None]}, None),
    (None, {"enum": ["SET", None]}, None),
    ("set", {"type": "string", "enum": ["SET"]}, "the body must be one of SET"),
    (True, {"enum": [1, 2]}, "the body must be one of 1, 2"),
    ([1, "2"], {"type": "array", "items": {"type": "integer"}}, "[1] must be an integer"),
    ([], {"type": "array", "minItems": 1}, "the body needs at least 1 entries"),
    ([1, 2], {"type": "array", "maxItems": 1}, "the body has more than 1 entries"),
    (
        {"a": 1, "b": "x"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        "b must be an integer",
    ),
    ("ab", {"type": "string", "pattern": "^a+$"}, " does not match ^a+$"),
    (1, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, None),
    (None, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "the body must be a string"),
    ({"in": {"deep": [{"x": None}]}}, {"properties": {"in": {"type": "object"}}}, None),
    ("anything", {}, None),
]


@pytest.mark.parametrize(("value", "schema", "problem"), CASES)
def test_a_value_is_checked_as_json_schema_says(
    value: Any, schema: dict[str, Any], problem: str | None
) -> None:
    assert problem_of(value, schema) == problem
    assert Draft202012Validator(schema).is_valid(value) is (problem is None)


def test_a_problem_names_its_place() -> None:
    schema = {"type": "object", "properties": {"data": {"type": "array", "items": NAMED}}}

    assert problem_of({"data": [{"name": "a"}, {"name": 2}]}, schema) == "data[1].name must be a string"


def test_a_long_name_from_outside_is_cut() -> None:
    problem = problem_of({"x" * 5000: 1}, NAMED | {"required": []})

    assert problem == f"{'x' * 100} is unknown"


def test_a_pattern_that_ends_a_text_leaves_no_room_for_a_line_end() -> None:
    schema = {"type": "string", "pattern": "^(earliest|latest)$"}

    assert problem_of("earliest", schema) is None
    assert problem_of("earliest\n", schema) is not None  # JSON Schema has the $ of ECMA-262
