"""JSON keeps its numbers as they were written, or is rejected with the name of a field."""

import json
import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.node.client.exact_json import (
    MAX_PARTS,
    check_parts,
    dump_json,
    is_same_json,
    load_for_comparison,
    load_json,
)

DIGITS = st.text("0123456789", min_size=1, max_size=40)
NUMBERS = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{int(whole)}{fraction}{exponent}",
    st.sampled_from(["", "-"]),
    DIGITS,
    st.one_of(st.just(""), DIGITS.map(lambda digits: f".{digits}")),
    st.one_of(st.just(""), st.integers(-500, 200).map(lambda exponent: f"e{exponent}")),
)


def without_space(document: str) -> str:
    """Return a document without whitespace; its texts must have none."""
    return "".join(document.split())


@given(st.lists(NUMBERS, max_size=5), st.text('aé"\\', max_size=5), st.sampled_from(["", " ", "\n"]))
def test_a_document_that_is_read_and_written_has_the_same_text(
    numbers: list[str], text: str, space: str
) -> None:
    shown = json.dumps(text, ensure_ascii=False)
    document = f'{{{space}"a":{space}[{f",{space}".join(numbers)}],"b":{{"a":{shown}}}{space}}}'

    assert dump_json(load_json(document.encode())).decode() == without_space(document)


@pytest.mark.parametrize(
    "number",
    ["1.10", "-0", "-0.0", "1E5", "1e-7", "0.10e+1", "100000000000000000000000", "9" * 400, "9" * 5000],
)
def test_a_number_keeps_the_text_that_it_has(number: str) -> None:
    for document in (number, f"[{number}]", f'{{"a":{{"b":[1,{number}]}},"c":"é"}}'):
        assert dump_json(load_json(document.encode())).decode() == document


@given(NUMBERS, NUMBERS)
def test_numbers_are_equal_when_their_values_are(one: str, other: str) -> None:
    for left, right in ((one, other), (one, one), (one, f"{one}{'' if 'e' in one else 'e0'}")):
        are_equal = is_same_json(load_for_comparison(left.encode()), load_for_comparison(right.encode()))

        assert are_equal is (Decimal(left) == Decimal(right))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("[1]", "[true]", False),
        ('{"a":[0,{"b":1}]}', '{"a":[false,{"b":1}]}', False),
        ('{"a":[0,{"b":1}]}', '{"a":[0.0,{"b":10e-1}]}', True),
        ("0", "false", False),
        ("null", "0", False),
        ('"1"', "1", False),
        ("[1,2]", "[1]", False),
        ('{"a":1}', '{"a":1,"b":2}', False),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', True),
        ("1e23", "100000000000000000000000", True),
        ("9007199254740993.0", "9007199254740993", True),
        ("9007199254740993", "9007199254740992.0", False),
        ("NaN", "NaN", False),
        ('{"a":"\\ud800"}', '{"a":"\\ud800"}', True),
    ],
)
def test_values_are_compared_at_any_depth(left: str, right: str, expected: bool) -> None:
    one, other = load_for_comparison(left.encode()), load_for_comparison(right.encode())

    assert is_same_json(one, other) is is_same_json(other, one) is expected


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"1e400", "the number 1e400 is beyond the largest float"),
        (b'{"a":[{"b":1},{"b":-1e999}]}', "the number -1e999 of field a[1].b is beyond the largest float"),
        (b"NaN", "NaN is not a JSON number"),
        (b'{"a":{"b":-Infinity}}', "-Infinity of field a.b is not a JSON number"),
        (b'{"a":"\\ud800"}', "the text of field a has a lone surrogate, which UTF-8 cannot encode"),
        (
            b'{"a":{"\\udc00":1}}',
            r"the name of field a.\udc00 has a lone surrogate, which UTF-8 cannot encode",
        ),
        (b'{"a":["x","\xff"]}', "the text of field a[1] is not UTF-8"),
        (b'{"a":{"\xff":1}}', "a name in a is not UTF-8"),
        (b'{"a":1,"b":{"a":1,"c":2,"a":1}}', "field b.a is repeated in its object"),
        (b'{"a":1.10,"a":1.10}', "field a is repeated in its object"),
        (b'{"a":{"b":tru}}', "invalid literal, expected 'true' at column 11, in field a.b"),
        (b'{"a":1,\n"b":[2,}', "unexpected character, expected a JSON value at 2:8, in field b[1]"),
        (b"[1", "unexpected end of data at column 3, in field [0]"),
        (b"nonsense", "invalid literal, expected 'null' at column 1"),
        (b"{1:1e400}", "unexpected character"),
        (b'{"a":{true:1}}', "unexpected character"),
    ],
)
def test_json_that_parsers_disagree_about_is_rejected_with_the_field(document: bytes, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        load_json(document)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    "document",
    [
        b"9" * 200_000,
        b"0." + b"1" * 200_000,
        b"1e-1000000000000000000000",
        b"[" + b"1e-999999999," * 10_000 + b"1]",
        b"[" * 900 + b"0.12345678901234567890123" + b"]" * 900,
        b"[" * 60_000,
        b'{"a":"' + b"\\\\" * 30_000,
        b'{"a":' * 10_000,
        b"[1e999," * 9_000,
        b'{"a":"' + b'\\"' * 32_000,
        b'{"a":' * 450 + b"[" + b"1," * 30_000,
    ],
    ids=[
        "whole",
        "fraction",
        "exponent",
        "many",
        "deep",
        "open",
        "escapes",
        "names",
        "refused",
        "quotes",
        "values far within",
    ],
)
def test_hostile_numbers_cost_no_more_than_their_bytes(document: bytes) -> None:
    began = time.process_time()

    for read in (load_json, load_for_comparison):
        try:
            found = read(document)
            is_same_json(found, found)
            dump_json(load_json(document))
        except ValueError:
            pass

    assert time.process_time() - began < 2


@pytest.mark.parametrize("load", [load_json, load_for_comparison])
def test_a_document_of_very_many_values_is_rejected_before_it_is_read(
    load: Callable[[bytes], object],
) -> None:
    bomb = b"[" + b"{}," * MAX_PARTS + b"{}]"

    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than"):
            load(bomb)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(bomb)
    finally:
        tracemalloc.stop()


def test_a_long_text_is_not_taken_for_many_values() -> None:
    text = "a, b and {c}, " * MAX_PARTS

    assert load_json(orjson.dumps({"text": text})) == {"text": text}


def parts_outside_texts(document: bytes) -> int:
    """Count the commas and opening brackets outside texts, byte by byte."""
    count, in_text, is_escaped = 0, False, False
    for byte in document.decode():
        if in_text:
            in_text = is_escaped or byte != '"'
            is_escaped = byte == "\\" and not is_escaped
        else:
            in_text = byte == '"'
            count += byte in ",{["
    return count


TEXTS = st.text(alphabet='"\\,[{a', max_size=6)
VALUES = st.recursive(
    TEXTS | st.integers(0, 99),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(VALUES)
def test_commas_and_brackets_of_texts_are_no_values(value: object) -> None:
    document = orjson.dumps(value)
    parts = parts_outside_texts(document)

    check_parts(document, parts)
    if parts:
        with pytest.raises(ValueError, match="more than"):
            check_parts(document, parts - 1)
