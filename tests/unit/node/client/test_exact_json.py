"""JSON whose numbers keep their value."""

import json
import time
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.client.exact_json import dump_json, load_for_comparison, load_json

DIGITS = st.text("0123456789", min_size=1, max_size=40)
NUMBERS = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{int(whole)}{fraction}{exponent}",
    st.sampled_from(["", "-"]),
    DIGITS,
    st.one_of(st.just(""), DIGITS.map(lambda digits: f".{digits}")),
    st.one_of(st.just(""), st.integers(-500, 200).map(lambda exponent: f"e{exponent}")),
)


def values(document: bytes) -> object:
    """A document with its numbers as exact decimals."""
    return json.loads(document, parse_float=Decimal, parse_int=Decimal)


@given(st.lists(NUMBERS, max_size=5), st.text(st.characters(codec="utf-8"), max_size=5))
def test_a_document_that_is_read_and_written_has_the_same_values(numbers: list[str], text: str) -> None:
    document = f'{{"a":[{",".join(numbers)}],"b":{json.dumps(text)}}}'.encode()

    assert values(dump_json(load_json(document))) == values(document)


@given(NUMBERS, NUMBERS)
def test_numbers_are_equal_when_their_values_are(one: str, other: str) -> None:
    for left, right in ((one, other), (one, one), (one, f"{one}{'' if 'e' in one else 'e0'}")):
        are_equal = load_for_comparison(left.encode()) == load_for_comparison(right.encode())

        assert are_equal is (Decimal(left) == Decimal(right))


@pytest.mark.parametrize(
    "document",
    [b"1e400", b'{"a":-1e999}', b"NaN", b"[Infinity]", b'"\\ud800"', b'{"\\udc00":1}', b'"\xff"', b"[1"],
)
def test_what_readers_do_not_agree_on_is_refused(document: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        load_json(document)


@pytest.mark.parametrize(
    "document",
    [
        b"9" * 200_000,
        b"0." + b"1" * 200_000,
        b"1e-1000000000000000000000",
        b"[" + b"1e-999999999," * 10_000 + b"1]",
        b"[" * 900 + b"0.12345678901234567890123" + b"]" * 900,
    ],
    ids=["whole", "fraction", "exponent", "many", "deep"],
)
def test_hostile_numbers_cost_no_more_than_their_bytes(document: bytes) -> None:
    began = time.process_time()

    for read in (load_json, load_for_comparison):
        try:
            found = read(document)
            assert found == found
            dump_json(load_json(document))
        except ValueError:
            pass

    assert time.process_time() - began < 5
