"""Java as the reference: Apache Kafka's own generated classes reread what we wrote, byte by byte.

All APIs, versions and both directions are tested with random content. Fields that are not set must have the
same defaults on both sides, and version ranges and versions of headers must be the same.
"""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import pytest

from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.schema_compiler import encode
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.codec import (
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)
from tests.compat.java.conftest import AskJava
from tests.compat.java.jars import NEWEST_CLIENTS
from tests.property.random_messages import random_message, served_apis

ROUNDS_PER_VERSION = 6
_QUESTION = struct.Struct(">chbhi")

pytestmark = [pytest.mark.java, pytest.mark.slow]


class Question(NamedTuple):
    """A question about one version of a message: R to reread the body, D for defaults, F for facts."""

    kind: bytes
    api: ApiKey
    is_request: bool
    version: int
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.api.api_name} {'request' if self.is_request else 'response'} version {self.version}"


Ask = Callable[[Sequence[Question]], list[bytes | str]]


@pytest.fixture(scope="module")
def ask(ask_java: AskJava) -> Ask:
    """Give a function that asks questions; an answer is bytes, or the text of Java's exception."""

    def answered(questions: Sequence[Question]) -> list[bytes | str]:
        request = b"".join(
            _QUESTION.pack(one.kind, one.api, one.is_request, one.version, len(one.body)) + one.body
            for one in questions
        )
        return parse_answers(ask_java("CodecReference", questions=request, artifacts=NEWEST_CLIENTS))

    return answered


def parse_answers(output: bytes) -> list[bytes | str]:
    answers: list[bytes | str] = []
    position = 0
    while position < len(output):
        (length,) = struct.unpack_from(">i", output, position)
        content = output[position + 4 : position + 4 + abs(length)]
        answers.append(content if length >= 0 else content.decode())
        position += 4 + abs(length)
    return answers


def all_versions() -> list[tuple[ApiKey, bool, int]]:
    return [
        (api, is_request, version)
        for api in served_apis()
        for is_request in (True, False)
        for version in range(schema_of(request_class(api)).min_version, _last(api) + 1)
    ]


def _last(api: ApiKey) -> int:
    return schema_of(request_class(api)).max_version


def class_of(api: ApiKey, is_request: bool) -> type:
    return request_class(api) if is_request else response_class(api)


def test_java_rereads_random_messages_to_the_same_bytes(ask: Ask) -> None:
    random = Random(7)
    questions = [
        Question(
            b"R",
            api,
            is_request,
            version,
            encode(random_message(class_of(api, is_request), version, random), version),
        )
        for api, is_request, version in all_versions()
        for _ in range(ROUNDS_PER_VERSION)
    ]

    answers = ask(questions)

    assert len(answers) == len(questions)
    wrong = [f"{q}: {a!r}" for q, a in zip(questions, answers, strict=True) if a != q.body]
    assert not wrong, f"{len(wrong)} of {len(questions)}, the first: {wrong[0]}"


def test_java_has_the_same_defaults(ask: Ask) -> None:
    questions = [Question(b"D", *one) for one in all_versions()]

    answers = ask(questions)

    wrong = [
        f"{q}: {a!r}"
        for q, a in zip(questions, answers, strict=True)
        if a != encode(class_of(q.api, q.is_request)(), q.version)
    ]
    assert not wrong, "\n".join(wrong)


def test_java_has_the_same_versions_and_headers(ask: Ask) -> None:
    questions = [Question(b"F", *one) for one in all_versions()]

    answers = ask(questions)

    for question, answer in zip(questions, answers, strict=True):
        assert isinstance(answer, bytes), f"{question}: {answer}"
        schema = schema_of(class_of(question.api, question.is_request))
        assert struct.unpack(">hhhh", answer) == (
            schema.min_version,
            schema.max_version,
            request_header_version(question.api, question.version),
            response_header_version(question.api, question.version),
        ), str(question)
