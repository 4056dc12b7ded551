"""Bodies made of records, and the outcome that a status of a response has for them."""

import json

import pytest

from ottla.pipeline.connect.http_options import BodyFormat
from ottla.pipeline.connect.http_requests import (
    HttpOutcome,
    RecordOrigin,
    idempotency_key,
    outcome_of_status,
    to_array,
    to_element,
)
from ottla.pipeline.connect.http_sink import Record, groups_of


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ((200, 202, 204), HttpOutcome.TAKEN),
        ((400, 409, 413, 422), HttpOutcome.REFUSED),
        # No record is to blame for these, so none is given up.
        ((301, 401, 403, 404, 405, 408, 425, 429, 500, 503), HttpOutcome.STOP),
    ],
)
def test_a_status_decides_between_the_record_and_the_endpoint(
    statuses: tuple[int, ...], outcome: HttpOutcome
) -> None:
    assert {outcome_of_status(status) for status in statuses} == {outcome}


@pytest.mark.parametrize(
    ("value", "body_format", "element"),
    [
        (b'{"a": [1, "x"]}', BodyFormat.JSON, b'{"a": [1, "x"]}'),
        (None, BodyFormat.JSON, b"null"),
        ("é".encode(), BodyFormat.STRING, "é".encode()),
        (b"\xff\x00", BodyFormat.BYTES, b"\xff\x00"),
    ],
)
def test_a_value_is_sent_as_it_is(value: bytes | None, body_format: BodyFormat, element: bytes) -> None:
    assert to_element(value, body_format) == element


@pytest.mark.parametrize(
    ("value", "body_format"),
    [
        (b"1,2", BodyFormat.JSON),  # two elements of an array
        (b"[1", BodyFormat.JSON),
        (b"", BodyFormat.JSON),
        (b"NaN", BodyFormat.JSON),
        (b"[" * 100_000, BodyFormat.JSON),
        (b"\xff", BodyFormat.JSON),
        (b"\xff", BodyFormat.STRING),
        (None, BodyFormat.STRING),
        (None, BodyFormat.BYTES),
    ],
)
def test_a_value_that_is_not_of_its_format_is_refused(value: bytes | None, body_format: BodyFormat) -> None:
    with pytest.raises(ValueError):
        to_element(value, body_format)


def test_arrays_are_json() -> None:
    assert json.loads(to_array([b'{"a": 1}', b"null"], BodyFormat.JSON)) == [{"a": 1}, None]
    assert json.loads(to_array(['say "é"'.encode(), b"2"], BodyFormat.STRING)) == ['say "é"', "2"]


def test_groups_stay_within_a_partition_and_a_size() -> None:
    def record(partition: int, offset: int) -> Record:
        return Record(RecordOrigin(topic="t", partition=partition, offset=offset), None, b"1", None)

    records = [record(0, 1), record(0, 2), record(0, 3), record(1, 1), record(1, 2)]

    assert [[str(one.origin) for one in group] for group in groups_of(records, 2)] == [
        ["t-0@1", "t-0@2"],
        ["t-0@3"],
        ["t-1@1", "t-1@2"],
    ]
    assert list(groups_of([], 2)) == []


def test_a_key_names_the_records_and_their_batch() -> None:
    first, last = (RecordOrigin(topic="t", partition=3, offset=offset) for offset in (5, 9))
    row = RecordOrigin(topic=None, partition=None, offset=4)

    assert idempotency_key("q", 7, 0, first, last) == "q/7/t-3/5-9"
    assert idempotency_key("q", 7, 2, row, row) == "q/7/task-2/4-4"
