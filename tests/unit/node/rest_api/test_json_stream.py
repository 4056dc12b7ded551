"""Documents from a stream that is split anywhere."""

import random
import sys
from typing import Any

import orjson
import pytest

from ottla.node.client.exact_json import MAX_NESTING, MAX_PARTS, dump_json, load_json
from ottla.node.rest_api.json_stream import JsonStream

DOCUMENTS: list[Any] = [
    {},
    {"value": {"type": "STRING", "data": 'a "quoted" } text {'}},
    {"a": [{"b": [1, 2, {}]}, {"c": "}{"}]},
    {"text": "\\", "more": '\\"}{'},
    {"ünïcode": "\U0001f600", "escaped": "\n\t"},
    {"number": 123456789012345678901234567890},
]


def encoded(document: Any) -> bytes:
    return dump_json(document)


def all_of(stream: JsonStream, chunks: list[bytes]) -> list[Any]:
    found = [document for chunk in chunks for document in stream.feed(chunk)]
    stream.end()
    return found


@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n", b"  \n\t "])
def test_documents_are_found_wherever_the_stream_is_cut(between: bytes) -> None:
    text = between.join([encoded(one) for one in DOCUMENTS] * 2) + between
    chance = random.Random(1)
    cuts = [[text], [text[at : at + 1] for at in range(len(text))]]
    for _ in range(50):
        places = sorted(chance.sample(range(len(text)), 6))
        cuts.append([text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)])

    for chunks in cuts:
        stream = JsonStream(10_000)

        assert all_of(stream, chunks) == DOCUMENTS * 2
        assert stream.problem is None


def test_a_document_is_given_before_anything_follows_it() -> None:
    stream = JsonStream(1000)

    assert not list(stream.feed(b'{"a":'))
    assert list(stream.feed(b"1}")) == [{"a": 1}]
    assert not stream.is_in_document


def test_documents_written_over_many_lines_are_found() -> None:
    text = b"".join(orjson.dumps(one, option=orjson.OPT_INDENT_2) for one in DOCUMENTS[:5])

    assert all_of(JsonStream(1000), [text]) == DOCUMENTS[:5]


@pytest.mark.parametrize(
    ("text", "before", "problem"),
    [
        (b'{"a":1}{"a":}', 1, "not JSON"),
        (b'{"a":1} 12', 1, "must be a JSON object"),
        (b"[1]", 0, "must be a JSON object"),
        (b'{"a":1}{"b":', 1, "ends within a JSON document"),
        (b'{"a":1}{"b":"' + b"x" * 200, 1, "larger than allowed"),
        (b'{"b":"' + b"x" * 200 + b'"}{"a":1}', 0, "larger than allowed"),
        (b'{"a":"\xff"}', 0, "not JSON"),
        (b'{"a":NaN}', 0, "not JSON"),
        (b'{"a":1e400}', 0, "not JSON"),
        (b"{" + b'"a":{' * 5000, 0, "larger than allowed"),
    ],
)
def test_documents_before_a_broken_one_are_kept(text: bytes, before: int, problem: str) -> None:
    stream = JsonStream(100)

    documents = all_of(stream, [text])

    assert documents == [{"a": 1}] * before
    assert problem in (stream.problem or "")
    assert not list(stream.feed(b'{"a":2}'))


def test_a_long_document_in_many_small_chunks_is_read_once() -> None:
    document = encoded({"value": {"data": "x" * 200_000}})
    stream = JsonStream(1_000_000)

    found = [one for at in range(0, len(document), 7) for one in stream.feed(document[at : at + 7])]

    assert len(found) == 1


@pytest.mark.parametrize("value", [b"{},", b"["], ids=["beside each other", "within each other"])
def test_a_document_of_too_many_values_is_refused_before_its_end(value: bytes) -> None:
    stream = JsonStream(100_000_000)
    assert not list(stream.feed(b'{"a":[' + value * (MAX_PARTS - 2)))
    assert stream.problem is None

    assert not list(stream.feed(value))

    assert f"more than {MAX_PARTS:,} values" in (stream.problem or "")
    assert not list(stream.feed(b'{"a":2}'))


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**64), 10**40])
def test_long_numbers_stay_what_they_are(number: int) -> None:
    assert load_json(b'{"n": %d}' % number) == {"n": number}
    assert dump_json({"n": number}) == b'{"n":%d}' % number


@pytest.mark.parametrize("room", [1000, 100_000], ids=["room as by default", "much room"])
def test_as_many_levels_are_written_whatever_room_the_interpreter_has(room: int) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(room)
    try:
        allowed = b"[" * MAX_NESTING + b"1" + b"]" * MAX_NESTING
        assert dump_json(load_json(allowed)) == allowed
        for begin, end in ((b"[", b"]"), (b'{"a":', b"}")):
            with pytest.raises(ValueError, match="too deeply"):
                dump_json(load_json(begin * (MAX_NESTING + 1) + b"1" + end * (MAX_NESTING + 1)))
    finally:
        sys.setrecursionlimit(before)
