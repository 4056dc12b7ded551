"""Messages of every class and version are decoded as they were encoded, with any content."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.schema_compiler import decode, decoder, encode, encoder
from ottla.node.wire import codec
from tests.property.random_messages import (
    class_versions,
    message_classes,
    messages,
    random_message,
    served_apis,
)

ROUNDS_PER_VERSION = 3


def test_all_apis_that_apache_kafka_advertises_to_clients_are_declared() -> None:
    keys = {*range(4), *range(8, 52), 55, 57, 60, 61, 64, 65, 66, 68, 69, *range(74, 82), *range(83, 95)}

    assert len(keys) == 77
    assert keys <= set(served_apis())


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_a_random_message_of_every_version_is_decoded_as_it_was_encoded(cls: type[Any]) -> None:
    random = Random(cls.__name__)
    schema = schema_of(cls)
    for version in range(schema.min_version, schema.max_version + 1):
        for _ in range(ROUNDS_PER_VERSION):
            message = random_message(cls, version, random)
            sent = encode(message, version)

            received, end = decoder(cls, version)(sent, 0)

            assert (received, end) == (message, len(sent))
            assert encode(received, version) == sent


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_a_message_of_defaults_is_decoded_as_it_was_encoded_in_every_version(cls: type[Any]) -> None:
    schema = schema_of(cls)
    for version in range(schema.min_version, schema.max_version + 1):
        assert decode(cls, version, encode(cls(), version)) == cls()


@pytest.mark.slow
@given(st.data())
def test_any_message_is_decoded_as_it_was_encoded_and_its_prefixes_are_rejected(data: st.DataObject) -> None:
    cls, version = data.draw(st.sampled_from(class_versions()))
    message = data.draw(messages(cls, version))
    sent = encode(message, version)

    assert decode(cls, version, sent) == message
    if sent:
        cut = data.draw(st.integers(0, len(sent) - 1))
        with pytest.raises(KafkaError):
            decode(cls, version, sent[:cut])


@pytest.mark.slow
@given(st.data())
def test_any_bytes_are_a_message_or_a_kafka_error(data: st.DataObject) -> None:
    cls, version = data.draw(st.sampled_from(class_versions()))
    received = data.draw(st.binary(max_size=200))

    try:
        value, end = decoder(cls, version)(memoryview(received), 0)
    except KafkaError:
        return
    assert end <= len(received)
    encoder(cls, version)(value, bytearray())


@pytest.mark.slow
@given(st.binary(max_size=100))
def test_any_bytes_are_a_request_header_or_a_kafka_error(received: bytes) -> None:
    try:
        _, position = codec.decode_request_header(received)
    except KafkaError:
        return
    assert position <= len(received)
