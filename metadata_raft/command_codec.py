"""Encodes and decodes commands and replies: number and version (int16 each), then the message.

Both come from authenticated peers, and are still checked like any other input: INVALID_REQUEST if they are
malformed or too long, UNSUPPORTED_VERSION for a number or version that this node does not know, which happens
while a cluster is upgraded.
"""

import struct
from typing import Any, Final, get_args

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer, schema_of
from ottla.logstore.words.schema_compiler import decoder, encoder
from ottla.metadata_raft.commands import Command, Reply

# A command of Kafka's largest request (10,000 records) has some 2 MB, one that shrinks 100,000 ISRs 6 MB.
MAX_COMMAND_BYTES: Final = 16 * 1024 * 1024
COMMAND_VERSION: Final = 0  # the version in which all commands and replies are written

_HEAD = struct.Struct(">hh")
_COMMANDS: dict[int, type[Any]] = {schema_of(cls).api_key or 0: cls for cls in get_args(Command)}
_REPLIES: dict[int, type[Any]] = {schema_of(cls).api_key or 0: cls for cls in get_args(Reply)}
assert _COMMANDS.keys() == _REPLIES.keys(), "a command has no reply, or two have one number"
assert len(_COMMANDS) == len(get_args(Command)) == len(get_args(Reply))


def encode_command(command: Command) -> bytes:
    """Return a command as bytes; POLICY_VIOLATION if it is larger than the leader accepts."""
    return _encode(command)


def decode_command(content: Buffer) -> Command:
    """Return the command that `encode_command` wrote."""
    decoded: Command = _decode(_COMMANDS, content, "command")
    return decoded


def encode_reply(reply: Reply) -> bytes:
    """Return a reply as bytes."""
    return _encode(reply)


def decode_reply(content: Buffer) -> Reply:
    """Return the reply that `encode_reply` wrote."""
    decoded: Reply = _decode(_REPLIES, content, "reply")
    return decoded


def _encode(value: Command | Reply) -> bytes:
    writer = bytearray(_HEAD.pack(schema_of(type(value)).api_key or 0, COMMAND_VERSION))
    encoder(type(value), COMMAND_VERSION)(value, writer)
    if len(writer) > MAX_COMMAND_BYTES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"A {type(value).__name__} would take {len(writer)} bytes, but at most "
            f"{MAX_COMMAND_BYTES} are allowed.",
        )
    return bytes(writer)


def _decode(classes: dict[int, type[Any]], content: Buffer, kind: str) -> Any:
    if not _HEAD.size <= len(content) <= MAX_COMMAND_BYTES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A {kind} cannot have {len(content)} bytes.")
    number, version = _HEAD.unpack_from(content)
    cls = classes.get(number)
    if cls is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"There is no {kind} with the number {number}.")
    value, end = decoder(cls, version)(content, _HEAD.size)
    if end != len(content):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"A {cls.__name__} has {len(content) - end} bytes after its end."
        )
    return value
