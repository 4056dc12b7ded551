"""Offsets of a topic as requests give them."""

import re

import pytest

from ottla.node.client.topic_admin import EARLIEST, LATEST
from ottla.node.rest_api import offset_spec
from ottla.node.rest_api.offset_spec import (
    OFFSET_PATTERN,
    OffsetSpec,
    cursor_text,
    parse_cursor,
    parse_offset_spec,
)
from ottla.node.rest_api.rest_error import RestError


@pytest.mark.parametrize(
    ("offset", "timestamp", "place"),
    [
        (None, None, offset_spec.EARLIEST),
        ("earliest", None, OffsetSpec(timestamp=EARLIEST)),
        ("latest", None, OffsetSpec(timestamp=LATEST)),
        ("42", None, OffsetSpec(offset=42)),
        ("-10", None, OffsetSpec(before_end=10)),
        ("-0", None, OffsetSpec(before_end=0)),
        ("3:42,1:0", None, OffsetSpec(cursor={1: 0, 3: 42})),
        (None, "1500", OffsetSpec(timestamp=1500)),
        (None, "1970-01-01T00:00:01.500Z", OffsetSpec(timestamp=1500)),
    ],
)
def test_an_offset_or_a_timestamp_of_a_request_is_parsed(
    offset: str | None, timestamp: str | None, place: OffsetSpec
) -> None:
    assert parse_offset_spec(offset, timestamp, offset_spec.EARLIEST) == place
    assert offset is None or re.search(OFFSET_PATTERN, offset)


def test_a_cursor_is_read_as_it_is_written() -> None:
    assert cursor_text(parse_cursor("7:1,0:999999999999999999")) == "0:999999999999999999,7:1"


@pytest.mark.parametrize("text", ["", "5", "0:1,0:1", "0:-1", "0:1,", "9999999999:1", "a:b", "0:1\n"])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(RestError):
        parse_cursor(text)
