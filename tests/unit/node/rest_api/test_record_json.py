"""Records in the JSON of Confluent's REST API."""

import base64
from typing import Any

import orjson
import pytest

from ottla.logstore.record import Record
from ottla.node.client.exact_json import COMPARED_PARTS, load_json
from ottla.node.client.producer import ProducerRecord
from ottla.node.rest_api.record_json import (
    delivery_report,
    instant,
    parse_record,
    parse_timestamp,
    report_place,
    shown_record,
)
from ottla.node.rest_api.rest_error import RestError


@pytest.mark.parametrize(
    ("content", "stored"),
    [
        ({"type": "BINARY", "data": "Zm9v"}, b"foo"),
        ({"type": "BINARY", "data": "Zm8"}, b"fo"),  # without padding
        ({"type": "BINARY", "data": ""}, b""),
        ({"type": "STRING", "data": "grün"}, "grün".encode()),
        ({"type": "STRING", "data": ""}, b""),
        ({"type": "JSON", "data": {"a": [1, None, "x"]}}, b'{"a":[1,null,"x"]}'),
        ({"type": "JSON", "data": "text"}, b'"text"'),
        ({"type": "JSON", "data": False}, b"false"),
        ({"type": "JSON", "data": 10**30}, b"1" + b"0" * 30),
        ({"type": "JSON", "data": None}, None),
        ({"type": "BINARY", "subject": None}, None),
        (None, None),
    ],
)
def test_keys_and_values_are_stored_as_their_type_says(content: Any, stored: bytes | None) -> None:
    parsed = parse_record({"key": content, "value": content})

    assert (parsed.record.key, parsed.record.value) == (stored, stored)
    assert parsed.key_type == (content and content["type"])


def test_all_fields_of_a_record_are_parsed() -> None:
    document = {
        "partition_id": 3,
        "headers": [{"name": "a", "value": "MQ=="}, {"name": "a"}, {"name": "", "value": None}],
        "key": {"type": "STRING", "data": "k"},
        "timestamp": "2021-02-05T19:14:42.123Z",
    }

    headers = (("a", b"1"), ("a", None), ("", None))
    assert parse_record(document).record == ProducerRecord(b"k", None, headers, 3, 1612552482123)
    assert parse_record({}).record == ProducerRecord(None, None)


@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        ([], 400, "a record must be a JSON object"),
        ("text", 400, "a record must be a JSON object"),
        ({"records": []}, 400, "Unrecognized field records"),
        ({"value": "text"}, 400, "value must be an object"),
        ({"value": {"type": "BINARY", "data": 1}}, 400, "Bad Request: data=1 is not a base64 string."),
        ({"value": {"type": "BINARY", "data": "§"}}, 400, "not a valid base64 string"),
        ({"value": {"type": "BINARY", "data": "Zm9vY"}}, 400, "not a valid base64 string"),
        ({"value": {"type": "BINARY", "data": "Zm 9v"}}, 400, "not a valid base64 string"),
        ({"value": {"type": "STRING", "data": {}}}, 400, "data={} is not a string."),
        ({"value": {"type": "BINARY", "data": "x" * 10**6 + "!"}}, 400, "x…"),
        ({"value": {"type": "BINARY", "subject": "s"}}, 400, "'type=BINARY' cannot be used with 'subject'."),
        ({"value": {"type": "BINARY", "more": 1}}, 400, "Unrecognized field more in value"),
        ({"value": {"type": "XML", "data": "a"}}, 400, "type=XML of value"),
        ({"value": {"type": ["JSON"], "data": "a"}}, 400, "of value must be one of"),
        ({"value": {"type": "AVRO", "data": "a"}}, 422, "Error: 42206 : Payload error. Schema Registry"),
        ({"value": {"data": "a"}}, 422, "Error: 42206 : Payload error. Schema Registry"),
        ({"value": {"schema_id": 1, "data": "a"}}, 422, "Error: 42206 : Payload error. Schema Registry"),
        ({"partition_id": -1}, 40402, "Partition not found."),
        ({"partition_id": 2**31}, 40402, "Partition not found."),
        ({"partition_id": "1"}, 400, "not an integer"),
        ({"partition_id": True}, 400, "not an integer"),
        ({"partition_id": 1.0}, 400, "not an integer"),
        ({"headers": {"a": "b"}}, 400, "headers must be an array"),
        ({"headers": [{"name": "a"}] * 1001}, 400, "at most 1000"),
        ({"headers": [{"value": "MQ=="}]}, 400, "a header has no name"),
        ({"headers": [{"name": "a", "value": "?"}]}, 400, "base64"),
        ({"headers": [{"name": "a", "key": "?"}]}, 400, "must be an object with name and value"),
        ({"timestamp": 1612552482}, 400, "not a date and time"),
        ({"timestamp": "2021-02-05"}, 400, "not a date and time"),
        ({"timestamp": "2021-02-30T00:00:00Z"}, 400, "not a date and time"),
        ({"timestamp": "1969-12-31T23:59:59Z"}, 400, "since 1970"),
        ({"timestamp": "2021-02-05T19:14:42+99:00"}, 400, "not a date and time"),
    ],
)
def test_the_error_of_an_invalid_record_says_what_is_wrong(document: Any, code: int, message: str) -> None:
    with pytest.raises(RestError) as caught:
        parse_record(document)

    assert caught.value.error_code == code
    assert message in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("place", ["key", "value", "timestamp", "partition_id", "headers"])
def test_values_nested_as_deeply_as_json_may_be_are_refused(place: str) -> None:
    nested = load_json(b"[" * 1000 + b"]" * 1000)
    content = {"type": "JSON", "data": nested} if place in ("key", "value") else nested

    with pytest.raises(RestError) as caught:
        parse_record({place: content})

    assert caught.value.error_code == 400


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2021-02-05T19:14:42z", 1612552482000),
        ("2021-02-05T20:14:42+01:00", 1612552482000),
        ("2021-02-05T19:14Z", 1612552440000),
        ("2021-02-05T19:14:42.999999999Z", 1612552482999),
    ],
)
def test_timestamps_are_parsed(text: str, milliseconds: int) -> None:
    assert parse_timestamp(text) == milliseconds


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1612552482120, "2021-02-05T19:14:42.120Z"),
        (-1, None),
        (2**63 - 1, None),
    ],
)
def test_timestamps_are_written_as_java_writes_them(milliseconds: int, text: str | None) -> None:
    assert instant(milliseconds) == text


def test_a_report_repeats_the_types_that_were_given() -> None:
    parsed = parse_record({"key": {"type": "STRING", "data": "ab"}, "value": {"type": "JSON"}})

    place = report_place("c", 't"')
    assert orjson.loads("{" + delivery_report(parsed, place, 1, 7, 1000) + "}") == {
        "cluster_id": "c",
        "topic_name": 't"',
        "partition_id": 1,
        "offset": 7,
        "timestamp": "1970-01-01T00:00:01Z",
        "key": {"type": "STRING", "size": 2},
        "value": {"type": "JSON", "size": -1},
    }
    nothing = orjson.loads("{" + delivery_report(parse_record({}), place, 1, 7, -1) + "}")
    assert nothing["timestamp"] is None and "key" not in nothing


@pytest.mark.parametrize(
    ("content", "form", "kind", "data"),
    [
        (b'{"a":\n123456789012345678901234567890}', "AUTO", "JSON", b'{"a": 123456789012345678901234567890}'),
        (b"42", "AUTO", "STRING", b'"42"'),
        (b"42", "JSON", "JSON", b"42"),
        (b"{no", "AUTO", "STRING", b'"{no"'),
        (b"{no", "JSON", "STRING", b'"{no"'),
        (b"\xff\0", "AUTO", "BINARY", b'"/wA="'),
        (b"\xff\0", "STRING", "BINARY", b'"/wA="'),
        (b"abc", "BINARY", "BINARY", b'"YWJj"'),
        (b"", "AUTO", "STRING", b'""'),
    ],
)
def test_bytes_are_shown_in_a_form_that_holds_them(content: bytes, form: str, kind: str, data: bytes) -> None:
    shown = shown_record("t", 0, Record(5, 1000, None, content, (("h", b"\xff"), ("n", None))), form)

    assert shown["value"]["type"] == kind
    assert orjson.dumps(shown["value"]["data"]) == data
    assert shown["key"] is None
    assert shown["headers"] == [
        {"name": "h", "value": base64.b64encode(b"\xff").decode()},
        {"name": "n", "value": None},
    ]


def test_json_of_very_many_values_is_shown_as_a_text() -> None:
    """To parse it takes a hundred times its memory, and a batch of a kilobyte may hold it."""
    bomb = b"[" + b"{}," * COMPARED_PARTS + b"{}]"

    shown = shown_record("t", 0, Record(5, 1000, None, bomb, ()), "AUTO")

    assert shown["value"] == {"type": "STRING", "size": len(bomb), "data": bomb.decode()}
