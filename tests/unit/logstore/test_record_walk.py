"""The walks over records, compiled and in Python, find the same faults and pause at the same limits."""

import importlib
from types import ModuleType

import pytest

from ottla.logstore import pure_record_walk, record_walk
from ottla.logstore.pure_record_walk import (
    DELTA,
    ENDS_EARLY,
    FIELD,
    HEADER_NAME,
    HEADERS,
    KEYLESS,
    LENGTH,
    LONG_MIN,
    TIMESTAMP,
    VALID,
)

LONG_MAX = 2**63 - 1
# Length 14/2 = 7: attributes, timestamp delta 0, offset delta 0, key "k", value null, no headers.
SOUND_RECORD = b"\x0e\0\0\0\x02k\x01\0"


def compiled() -> ModuleType | None:
    try:
        return importlib.import_module("ottla.logstore._record_walk")
    except ImportError:
        return None


IMPLEMENTATIONS = [
    pure_record_walk,
    pytest.param(
        compiled(), marks=pytest.mark.skipif(compiled() is None, reason="the walk was not compiled")
    ),
]
both = pytest.mark.parametrize("module", IMPLEMENTATIONS, ids=["python", "compiled"])


def walk(
    module: ModuleType, content: bytes, count: int, *, earliest: int = LONG_MIN, needs_key: bool = False
) -> tuple[int, int, int, int]:
    found: tuple[int, int, int, int] = module.walk(
        content, 0, 0, count, count, 2**62, 1000, earliest, LONG_MAX, needs_key
    )
    return found


@both
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (SOUND_RECORD, VALID),
        (b"", LENGTH),
        (SOUND_RECORD[:-1], LENGTH),
        (b"\x0a\0\0\0\x02", LENGTH),  # five bytes are too short for a record
        (b"\x0f" + SOUND_RECORD[1:], LENGTH),  # negative
        (b"\x80\x80\x80\x80\x80\x01" + SOUND_RECORD[1:], LENGTH),  # six bytes of a varint
        (b"\x0e\0" + b"\x80" * 6, FIELD),
        (b"\x0e\0\0\0\x10k\x01\0", FIELD),  # the key extends beyond its record
        (b"\x0e\0\0\0\x02k\x10\0", FIELD),  # so does the value
        (b"\x0e\0\0\x02\x02k\x01\0", DELTA),
        (b"\x0e\0\0\x01\x02k\x01\0", DELTA),
        (b"\x0e\0\0\0\x02k\x01\x01", HEADERS),  # -1 headers
        (b"\x0e\0\0\0\x02k\x01\x02", HEADERS),  # one header, but no bytes
        (b"\x12\0\0\0\x02k\x01\x02\x01\0", HEADER_NAME),
        (b"\x12\0\0\0\x02k\x01\x02\x08\0", FIELD),
        (b"\x10\0\0\0\x02k\x01\0\0", ENDS_EARLY),
    ],
)
def test_the_problem_of_a_record_is_returned(module: ModuleType, content: bytes, problem: int) -> None:
    behind = (
        (1, len(content)) if problem == VALID else (0, 0)
    )  # otherwise index and position of the record at fault

    assert walk(module, content, 1)[:3] == (problem, *behind)


@both
def test_the_walk_continues_after_a_record_that_is_not_accepted(module: ModuleType) -> None:
    without_key = b"\x0c\0\0\0\x01\x01\0"

    assert walk(module, without_key, 1) == (VALID, 1, 7, 1000)
    assert walk(module, without_key, 1, needs_key=True) == (KEYLESS, 0, 7, LONG_MIN)
    assert walk(module, without_key, 1, earliest=1001) == (TIMESTAMP, 0, 7, 1000)


@both
def test_timestamps_wrap_around_as_in_java(module: ModuleType) -> None:
    largest = b"\xfe" + b"\xff" * 8 + b"\x01"  # the varint of 2^63-1
    content = b"\x20\0" + largest + b"\0\x02k\x01\0"

    assert walk(module, content, 1)[3] == LONG_MIN + 999


@both
def test_records_can_be_walked_in_pieces(module: ModuleType) -> None:
    content = b"".join(b"\x0e\0\0" + bytes([2 * index]) + b"\x02k\x01\0" for index in range(10))
    rest = (1000, LONG_MIN, LONG_MAX, False)

    assert module.walk(content, 0, 0, 10, 3, 2**62, *rest) == (VALID, 3, 24, 1000)
    assert module.walk(content, 24, 3, 10, 9, 9, *rest) == (VALID, 5, 40, 1000)
    assert module.walk(content, 40, 5, 10, 9, 2**62, *rest) == (VALID, 10, 80, 1000)
    assert module.find(content, 0, 0, 10, 4, 1000, 0, 6) == (VALID, 4, 32, -1, 0)
    assert module.find(content, 32, 4, 10, 4, 1000, 0, 6) == (VALID, 7, 56, 6, 1000)
    problem, index, position, found = module.spans(content, 0, 0, 10, 2)
    assert (problem, index, position) == (VALID, 2, 16)
    assert found[1] == (8, 11, 16, 1, 0, b"k", False)


@both
def test_plain_records_end_with_the_content_and_have_the_headers_max_timestamp(
    module: ModuleType,
) -> None:
    rest = (LONG_MIN, LONG_MAX)

    assert module.is_plain(b"xx" + SOUND_RECORD, 2, 1, 1000, 1000, *rest)
    assert not module.is_plain(SOUND_RECORD, 0, 1, 1000, 1001, *rest)
    assert not module.is_plain(SOUND_RECORD + b"\0", 0, 1, 1000, 1000, *rest)
    assert not module.is_plain(SOUND_RECORD, 0, 2, 1000, 1000, *rest)
    assert not module.is_plain(SOUND_RECORD, 0, 2**31 - 1, 1000, 1000, *rest)


def test_a_position_outside_the_buffer_is_an_error_of_the_caller() -> None:
    module = compiled()
    if module is None:
        pytest.skip("the walk was not compiled")

    for position in (-1, 99):
        with pytest.raises(ValueError, match="outside"):
            module.spans(SOUND_RECORD, position, 0, 1, 1)
    with pytest.raises(TypeError):
        module.spans(SOUND_RECORD, 0)
    with pytest.raises(OverflowError):
        module.spans(SOUND_RECORD, 0, 0, 2**63, 1)


def test_without_a_compiler_the_lengths_of_further_records_are_checked() -> None:
    count = record_walk.FULLY_CHECKED_RECORDS + 4
    content = bytearray(b"".join(b"\x0e\0\0" + bytes([2 * index]) + b"\x02k\x01\0" for index in range(count)))
    rest = (1000, 1000, LONG_MIN, LONG_MAX)

    assert pure_record_walk.is_plain_as_far_as_checked(content, 0, count, *rest)
    assert not pure_record_walk.is_plain_as_far_as_checked(content, 0, count + 1, *rest)
    assert not pure_record_walk.is_plain_as_far_as_checked(content, 0, count - 1, *rest)
    content[-8] = 0x10  # the last record claims to be longer
    assert not pure_record_walk.is_plain_as_far_as_checked(content, 0, count, *rest)
    content[-8] = 0x0E
    content[-5] ^= 2  # its offset delta is not checked
    assert pure_record_walk.is_plain_as_far_as_checked(content, 0, count, *rest)
    content[3] ^= 2  # the offset delta of the first record is checked
    assert not pure_record_walk.is_plain_as_far_as_checked(content, 0, count, *rest)
