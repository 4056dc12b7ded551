"""Zig-zag varints as record batch v2 writes them."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import append_varint, read_varint, read_varlong

CASES = [
    (0, b"\x00"),
    (-1, b"\x01"),
    (1, b"\x02"),
    (63, b"\x7e"),
    (-64, b"\x7f"),
    (64, b"\x80\x01"),
    (2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
    (-(2**31), b"\xff\xff\xff\xff\x0f"),
    (2**63 - 1, b"\xfe" + b"\xff" * 8 + b"\x01"),
    (-(2**63), b"\xff" * 9 + b"\x01"),
]


@pytest.mark.parametrize(("number", "encoded"), CASES)
def test_numbers_have_the_bytes_of_the_protocol(number: int, encoded: bytes) -> None:
    target = bytearray(b"x")

    append_varint(target, number)

    assert target == b"x" + encoded
    assert read_varlong(bytes(target) + b"tail", 1) == (number, 1 + len(encoded))


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff" * 4, b"\xff" * 5 + b"\x01"])
def test_a_varint_that_is_cut_off_or_too_long_is_rejected(encoded: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        read_varint(encoded, 0)

    assert refused.value.code is ErrorCode.INVALID_RECORD
