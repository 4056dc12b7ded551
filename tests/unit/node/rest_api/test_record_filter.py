"""Filters of records."""

import pytest

from ottla.logstore.record import Record
from ottla.node.rest_api.record_filter import parse_filter
from ottla.node.rest_api.rest_error import RestError

LOGIN = Record(0, 0, b'{"id":7}', b'{"type":"login","user":{"id":42,"tags":["new","eu"]},"ok":true,"a=b":1}')


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        ("login", True),
        ("LOGIN", False),
        ('"id":7', True),  # in the key
        ("$5", False),  # a text, though it begins like a field
        ("$.type=login", True),
        ('$.type=="login"', True),
        ("$.user.id=42", True),
        ("$.user.id=43", False),
        ('$.user.id="42"', False),
        ("$.user.tags[1]=eu", True),
        ("$.user.tags[2]=eu", False),
        ('$.user.tags=["new","eu"]', True),
        ("$.ok=true", True),
        ("$.ok=1", False),
        ("$.none=null", False),
        ("$key.id=7", True),
        ("$key.id=8", False),
    ],
)
def test_a_filter_selects_the_records_that_are_wanted(text: str, is_wanted: bool) -> None:
    assert parse_filter(text)(LOGIN) is is_wanted


@pytest.mark.parametrize(
    ("wanted", "value", "is_wanted"),
    [
        ("23958446825181076828", b"23958446825181076828", True),
        ("23958446825181076828", b"23958446825181076829", False),
        ("0.1", b"0.1", True),
        ("0.1", b"0.10", True),
        ("0.1", b"0.10000000000000000001", False),
        ("5", b"5.0", True),
        ("1e2", b"100", True),
        ("1e-400", b"0", False),
        ("[1]", b"[true]", False),
        ('{"b":[0]}', b'{"b":[false]}', False),
        ('{"b":[0]}', b'{"b":[0.0]}', True),
        ("NaN", b'"NaN"', True),
    ],
)
def test_numbers_are_compared_with_all_their_digits(wanted: str, value: bytes, is_wanted: bool) -> None:
    assert parse_filter(f"$.a={wanted}")(Record(0, 0, None, b'{"a":%b}' % value)) is is_wanted


def test_a_value_that_cannot_be_compared_hides_no_other_field() -> None:
    for value in (b"1e99999999999999999999999", b"NaN", b"-Infinity", b'"\\ud800"', b"9" * 5000):
        record = Record(0, 0, None, b'{"a":%b,"b":1}' % value)

        assert parse_filter("$.b=1")(record) is True
        assert parse_filter("$.a=1")(record) is False


def test_a_value_that_is_no_json_object_has_no_field() -> None:
    for value in (b"text", b"", b"\xff", None, b"[1]", b"1"):
        assert parse_filter("$.a=1")(Record(0, 0, None, value)) is False


@pytest.mark.parametrize("text", ["$.", "$.a", "$.a[x]=1", "$.=1", "$key.a"])
def test_half_a_field_is_refused(text: str) -> None:
    with pytest.raises(RestError):
        parse_filter(text)
