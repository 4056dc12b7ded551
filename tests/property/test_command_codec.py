"""Commands and replies are decoded as they were encoded; arbitrary bytes are accepted or rejected."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.command_codec import decode_command, decode_reply, encode_command, encode_reply
from ottla.metadata_raft.commands import Command, CreateTopics, Reply
from tests.property.random_messages import messages

COMMANDS = st.sampled_from(get_args(Command)).flatmap(lambda cls: messages(cls, 0))
REPLIES = st.sampled_from(get_args(Reply)).flatmap(lambda cls: messages(cls, 0))


@pytest.mark.slow
@given(COMMANDS, REPLIES)
def test_commands_and_replies_are_decoded_as_they_were_encoded(command: Any, reply: Any) -> None:
    assert decode_command(encode_command(command)) == command
    assert decode_reply(memoryview(encode_reply(reply))) == reply


@pytest.mark.slow
@given(COMMANDS, st.data())
def test_damaged_bytes_are_rejected_or_decode_to_another_command(command: Any, data: Any) -> None:
    content = bytearray(encode_command(command))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))

    for hostile in (bytes(content), bytes(content[:cut]), bytes(content) + b"x"):
        for decode in (decode_command, decode_reply):
            try:
                decode(hostile)
            except KafkaError as error:
                assert error.code in (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)


def test_commands_of_a_newer_node_are_rejected() -> None:
    content = bytearray(encode_command(CreateTopics()))

    for position in (0, 2):  # the number, the version
        newer = bytearray(content)
        newer[position] = 3
        with pytest.raises(KafkaError) as rejection:
            decode_command(newer)
        assert rejection.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_extra_bytes_and_giant_commands_are_rejected() -> None:
    content = encode_command(CreateTopics())

    for hostile in (b"", content[:3], content + b"\0", content + bytes(2**25)):
        with pytest.raises(KafkaError) as rejection:
            decode_command(hostile)
        assert rejection.value.code is ErrorCode.INVALID_REQUEST
