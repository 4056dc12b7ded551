"""ottla.node.cli.record_text: lines that are parsed and printed."""

import json

import pytest

from ottla.logstore.record import Record
from ottla.logstore.words.escaped_text import CONTROLS
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.record_commands import OffsetSpec, parse_offset_spec
from ottla.node.cli.record_text import (
    column_formatter,
    format_json,
    format_json_for_terminal,
    parse_json,
    parse_line,
    template_formatter,
)
from ottla.node.client.producer import ProducerRecord

PLACE = TopicPartition("orders", 3)
RECORD = Record(42, 1_700_000_000_000, b"anna", b"2 apples", (("src", b"shop"), ("none", None)))


def test_a_plain_line_is_the_value() -> None:
    assert parse_line(b"a:b", key_separator=None, empty_as_null=False) == ProducerRecord(None, b"a:b")


def test_the_first_separator_ends_the_key() -> None:
    assert parse_line(b"a:b:c", key_separator=b":", empty_as_null=False) == ProducerRecord(b"a", b"b:c")


def test_a_line_without_its_separator_is_rejected() -> None:
    with pytest.raises(ValueError, match="the key separator"):
        parse_line(b"abc", key_separator=b":", empty_as_null=False)


def test_an_empty_value_becomes_a_tombstone_on_demand() -> None:
    assert parse_line(b"a:", key_separator=b":", empty_as_null=True) == ProducerRecord(b"a", None)
    assert parse_line(b"a:", key_separator=b":", empty_as_null=False) == ProducerRecord(b"a", b"")


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        Record(0, -1, None, None),
        Record(1, 5, b"\xff\xfe", b"\x00\x80", (("twice", b"1"), ("twice", b"\xff"))),
        Record(2, 6, "schön".encode(), b"", ()),
    ],
)
def test_a_record_that_is_printed_as_json_can_be_produced_again(record: Record) -> None:
    parsed = parse_json(format_json(PLACE, record))

    assert parsed == ProducerRecord(record.key, record.value, record.headers, 3, record.timestamp)


def test_a_value_that_is_not_a_string_is_sent_as_json() -> None:
    assert parse_json(b'{"value": {"a": [1, null]}}') == ProducerRecord(None, b'{"a":[1,null]}')


def test_a_file_may_begin_with_a_byte_order_mark() -> None:
    assert parse_json(b'\xef\xbb\xbf{"value":"a"}') == ProducerRecord(None, b"a")


def test_an_embedded_value_is_stored_with_the_text_of_its_numbers() -> None:
    line = b'{"key": 1.10, "value": {"price": 1.10, "none": -0, "n": [1E2, 123456789012345678901]}}'

    record = parse_json(line)

    assert (record.key, record.value) == (
        b"1.10",
        b'{"price":1.10,"none":-0,"n":[1E2,123456789012345678901]}',
    )


def test_headers_may_be_an_object() -> None:
    assert parse_json(b'{"headers": {"a": "b", "c": null}}').headers == (("a", b"b"), ("c", None))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"nonsense", "^this line is not JSON, or not JSON that can be stored unchanged: "),
        (b"\xff", "not JSON"),
        (b"[1]", "this line is not a JSON object"),
        (b'{"partition": "1"}', r"partition must be an integer from -1 to 2147483647$"),
        (b'{"timestamp": true}', "timestamp must be an integer from -1 to 9223372036854775807"),
        (b'{"headers": 7}', "headers must be"),
        (b'{"value_base64": "*"}', "not base64"),
        (b'{"value_base64": 7}', "not base64"),
        (
            b'{"vlaue": "x"}',
            "unknown field 'vlaue'; the fields are key, key_base64, value, value_base64, headers,",
        ),
        (b'{"value": null, "value_base64": "aaaa"}', "both value and value_base64"),
        (b'{"key": "k", "key_base64": "aaaa"}', "both key and key_base64"),
        (b'{"headers": [{"key": "h", "vlaue": "x"}]}', "unknown field 'vlaue'; the fields are key, value,"),
        (b"[" * 100_000, "not JSON"),
        (
            b'{"value":{"a":[1,1e400]}}',
            r": the number 1e400 of field value\.a\[1\] is beyond the largest float$",
        ),
        (b'{"value":1,"value":2}', ": field value is repeated in its object"),
        (b'{"value":{"a":1,}}', r": .* at column 16, in field value\.a$"),
    ],
)
def test_the_error_for_an_invalid_json_line_says_what_is_wrong(line: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_json(line)


def test_columns_stand_in_a_fixed_order() -> None:
    shown = {"keys", "headers", "offsets", "partitions", "timestamps"}

    line = column_formatter(shown, "|")(PLACE, RECORD)

    assert line == b"3|42|1700000000000|src=shop,none=NULL|anna|2 apples\n"
    assert column_formatter(set(), "|")(PLACE, RECORD) == b"2 apples\n"


def test_a_template_prints_what_it_names() -> None:
    line = template_formatter("%t/%p/%o@%T %k=%s %K %S 100%%\\n")(PLACE, RECORD)

    assert line == b"orders/3/42@1700000000000 anna=2 apples 4 8 100%\n"


@pytest.mark.parametrize("template", ["%x", "abc%"])
def test_an_unknown_letter_is_rejected(template: str) -> None:
    with pytest.raises(ValueError, match="is not a field"):
        template_formatter(template)


def test_json_is_one_line() -> None:
    line = format_json(PLACE, Record(0, 0, None, b"a\nb"))

    assert line.count(b"\n") == 1 and json.loads(line)["value"] == "a\nb"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", OffsetSpec(timestamp=-2)),
        ("end", OffsetSpec(timestamp=-1)),
        ("42", OffsetSpec(offset=42)),
        ("-10", OffsetSpec(before_end=10)),
        ("@1700000000000", OffsetSpec(timestamp=1_700_000_000_000)),
        ("@2023-11-14T22:13:20Z", OffsetSpec(timestamp=1_700_000_000_000)),
        ("@2023-11-14T23:13:20+01:00", OffsetSpec(timestamp=1_700_000_000_000)),
    ],
)
def test_the_start_of_a_read_is_parsed(text: str, place: OffsetSpec) -> None:
    assert parse_offset_spec(text) == place


@pytest.mark.parametrize("text", ["", "middle", "@yesterday", "--1", "1e5"])
def test_an_invalid_start_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_offset_spec(text)


HOSTILE = Record(
    0, 0, b"k\x1b]0;title\x07", b"a\x1b[2J\tb\nc\r\xe2\x80\xaed\xc2\x9b\xff\x9b", (("h\x1b", b"\x1b"),)
)


def test_a_terminal_is_shown_control_characters_of_records_as_escapes() -> None:
    columns = column_formatter({"keys", "headers"}, "|", for_terminal=True)(PLACE, HOSTILE)
    template = template_formatter("\x1b[1m%k\x1b[0m %h\\n", for_terminal=True)(PLACE, HOSTILE)
    lone_value = column_formatter(set(), "|", for_terminal=True)(PLACE, HOSTILE)

    shown_value = rb"a\x1b[2J" + b"\tb\nc" + rb"\r\u202ed\x9b\xff\x9b" + b"\n"
    assert columns == rb"h\x1b=\x1b|k\x1b]0;title\x07|" + shown_value
    assert template == b"\x1b[1m" + rb"k\x1b]0;title\x07" + b"\x1b[0m " + rb"h\x1b=\x1b" + b"\n"
    assert lone_value == shown_value


def test_a_pipe_gets_the_bytes_of_records_as_they_are() -> None:
    assert column_formatter(set(), "|")(PLACE, HOSTILE) == (HOSTILE.value or b"") + b"\n"
    assert template_formatter("%k")(PLACE, HOSTILE) == HOSTILE.key


def test_json_for_a_terminal_is_the_same_object_without_control_characters() -> None:
    record = Record(0, 0, None, "\x1b\x7f\x9b\u202e".encode())

    line = format_json_for_terminal(PLACE, record)

    assert json.loads(line) == json.loads(format_json(PLACE, record))
    assert not CONTROLS.search(line.decode().removesuffix("\n"))
