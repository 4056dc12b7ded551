"""Java as the reference for records of __consumer_offsets, and of the data that classic consumers exchange.

Kafka's own code rereads ours, byte by byte.
"""

import struct
from random import Random
from typing import Any

import pytest

from ottla.groupcoord.classic.consumer_protocol import NEWEST_VERSION, AssignedPartitions, Subscription
from ottla.groupcoord.consumer.consumer_records import (
    LAYOUTS,
    ConsumerGroupRecord,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla.groupcoord.record_codec import encode_key, encode_value
from ottla.groupcoord.record_layout import Layouts
from ottla.groupcoord.share.share_records import SHARE_LAYOUTS
from ottla.logstore.words import schema_compiler
from ottla.logstore.words.schema import schema_of
from tests.compat.java.conftest import AskJava
from tests.property.random_messages import random_message

ROUNDS = 40

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_java_rereads_records_of_the_consumer_protocol_to_the_same_bytes(
    ask_java: AskJava,
) -> None:
    questions = [(encode_consumer_key(record), encode_consumer_value(record)) for record in random_records()]

    answered = answers_of(ask_java, questions)

    assert answered == questions


def test_java_rereads_records_of_share_groups_to_the_same_bytes(ask_java: AskJava) -> None:
    random = Random(932)
    questions = [(encode_key(one), encode_value(one)) for one in records_of(SHARE_LAYOUTS, random)]

    answered = answers_of(ask_java, questions)

    assert answered == questions


def test_java_rereads_the_data_that_consumers_exchange_to_the_same_bytes(
    ask_java: AskJava,
) -> None:
    random = Random(1)
    questions: list[tuple[bytes, bytes | None]] = []
    for kind, cls in ((b"S", Subscription), (b"A", AssignedPartitions)):
        for version in range(NEWEST_VERSION + 1):
            values = [cls(), *(random_message(cls, version, random) for _ in range(ROUNDS))]
            questions += [(kind, schema_compiler.encode_versioned(value, version)) for value in values]

    answered = answers_of(ask_java, questions)

    assert answered == questions


def random_records() -> list[ConsumerGroupRecord]:
    return records_of(LAYOUTS, Random(848))


def records_of(layouts: Layouts, random: Random) -> list[Any]:
    """Return records of every kind: with defaults, a tombstone, and many with random fields."""
    records: list[Any] = []
    for record, layout in layouts.items():
        values = [layout.value(), None]
        values += [random_message(layout.value, 0, random) for _ in range(ROUNDS)]
        for value in values:
            key = random_message(layout.key, 0, random)
            records.append(
                record(*(getattr(key, field.name) for field in schema_of(layout.key).fields), value)
            )
    return records


def answers_of(
    ask_java: AskJava, questions: list[tuple[bytes, bytes | None]]
) -> list[tuple[bytes, bytes | None]]:
    content = b"".join(_with_length(key) + _with_length(value) for key, value in questions)
    output = ask_java("GroupRecordReference", questions=content)
    answers: list[tuple[bytes, bytes | None]] = []
    position = 0
    while position < len(output):
        key, position = _read(output, position)
        assert key is not None
        value, position = _read(output, position)
        answers.append((key, value))
    return answers


def _with_length(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def _read(output: bytes, position: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", output, position)
    position += 4
    if length == -2:
        text, _ = _read(output, position)
        pytest.fail(f"Java: {(text or b'').decode()}")
    if length < 0:
        return None, position
    return output[position : position + length], position + length
