"""Murmur2 of many keys equals that of each key alone, whatever their lengths."""

from random import Random

import pyarrow as pa

from ottla.node.client.producer import murmur2 as murmur2_of_one
from ottla.pipeline.columns.murmur2 import murmur2


def test_hashes_are_those_of_kafkas_own_tests() -> None:
    keys = [b"21", b"foobar", b"a-little-bit-long-string", b"a-little-bit-longer-string", b"abc", b""]

    hashes = murmur2(pa.array(keys, pa.binary()))

    assert hashes.view("int32").tolist() == [
        -973932308,
        -790332482,
        -985981536,
        -1486304829,
        479470107,
        275646681,
    ]


def test_keys_of_all_lengths_together_are_hashed_as_alone() -> None:
    random = Random(1)
    keys = [random.randbytes(length) for length in [*range(65), 300, 1001]]
    random.shuffle(keys)

    hashes = murmur2(pa.array([b"before", *keys], pa.binary())[1:])

    assert hashes.tolist() == [murmur2_of_one(key) for key in keys]


def test_nulls_between_keys_change_nothing() -> None:
    hashes = murmur2(pa.array([None, b"key", None, b""], pa.binary()))

    assert hashes[[1, 3]].tolist() == [murmur2_of_one(b"key"), murmur2_of_one(b"")]


def test_no_keys_have_no_hashes() -> None:
    assert murmur2(pa.array([], pa.binary())).tolist() == []
    assert murmur2(pa.array([b""], pa.binary())).tolist() == [murmur2_of_one(b"")]
