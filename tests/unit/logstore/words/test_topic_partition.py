"""Ids of topics and directories as text."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import uuid_from_text, uuid_to_text

ID = b"\xfb\xef\xbe" * 5 + b"\xff"


def test_an_id_is_the_same_after_its_text_is_parsed() -> None:
    assert uuid_from_text(uuid_to_text(ID)) == ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a" * 21,
        "a" * 23,
        "a" * 21 + "*",
        "é" + "a" * 21,
        uuid_to_text(ID).translate(str.maketrans("-_", "+/")),
    ],
)
def test_a_text_that_is_not_22_base64url_characters_is_rejected(text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        uuid_from_text(text)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
