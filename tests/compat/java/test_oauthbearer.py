"""Kafka's parser as the reference for first messages of OAUTHBEARER: both find the same parts, or reject."""

import base64
from random import Random

import pytest

from ottla.node.security.sasl.oauthbearer import read_request
from ottla.node.security.sasl.sasl_error import SaslError
from tests.compat.java.conftest import AskJava
from tests.thorough import some_of

MESSAGES = 5_000  # for each seed
# The pieces of messages, mostly put together in a meaningful order.
PIECES = (
    *(b"n,,\x01", b"n,a=alice,\x01", b"n,a=a=2Cb,\x01", b"y,,\x01", b"n,", b","),
    *(b"auth=Bearer abc\x01", b"auth=bearer  a.b==\x01", b"auth=Basic abc\x01", b"auth=Bearer a=b\x01"),
    *(b"key=value\x01", b"key=a b\t=c\x01", b"Key9=x\x01", b"key=\x01", b"k=\xc3\xa4\x01", b"k=\xff\x01"),
    *(b"\x01", b"\x00", b" ", b"=", b"a", b"\n", b"\x7f"),
)

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.mark.parametrize("seed", some_of(range(20), of_each_run=1))
def test_first_messages_are_read_as_by_kafka(ask_java: AskJava, seed: int) -> None:
    random = Random(seed)
    messages = [made(random) for _ in range(MESSAGES)]
    lines = [base64.b64encode(one) for one in messages]

    theirs = ask_java("OauthBearerReference", questions=b"\n".join(lines)).decode().split("\n")[:-1]

    answers = [answer_of(one) for one in messages]
    assert [
        (message, answer, other)
        for message, answer, other in zip(messages, answers, theirs, strict=True)
        if answer != other
    ] == []
    assert MESSAGES / 20 < answers.count("rejected") < MESSAGES * 0.95


def made(random: Random) -> bytes:
    """Return a message that is valid, or nearly so."""
    head, end = random.choice(PIECES[:4]), b"\x01"
    pairs = [
        random.choice(PIECES[6:16] if random.random() < 0.2 else PIECES[6:12])
        for _ in range(random.randrange(4))
    ]
    message = bytearray(head + b"".join(pairs) + end)
    while random.random() < 0.25:
        place = random.randrange(len(message) + 1)
        message[place : place + random.randrange(2)] = random.choice(PIECES)
    return bytes(message)


def answer_of(message: bytes) -> str:
    try:
        read = read_request(message)
    except SaslError:
        return "rejected"
    return " ".join(base64.b64encode(one.encode()).decode() for one in read)
