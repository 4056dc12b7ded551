"""SubmitCommand (key 30001, ours): a node has the controller decide a command of `metadata_raft/commands`.

A command that is sent again has the same (broker epoch, sequence), and is carried out once.
`oldest_open_sequence` is the lowest that its sender still waits for: results below it need not be kept. Since
1 the sender names the client that requested the command, or None for a command of its own.
"""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class Client:
    """The principal of a client as `Type:name`, and the numeric address of its host."""

    principal: str = schema.string()
    host: str = schema.string()


@message(api_key=30_001, versions=(0, 1), flexible_since=0)
class SubmitCommandRequest:
    broker_epoch: int = schema.int64(default=-1)
    sequence: int = schema.int64(default=-1)
    oldest_open_sequence: int = schema.int64(default=-1)
    timeout_ms: int = schema.int32()
    command: bytes = schema.secret()  # as encoded by metadata_raft.command_codec
    client: Client | None = schema.struct_(Client, since=1, nullable_since=1, default=None)


@message(api_key=30_001, versions=(0, 1), flexible_since=0)
class SubmitCommandResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    leader_id: int = schema.int32(default=-1)  # the leader of the quorum, as far as the answering node knows
    epoch: int = schema.int32(default=-1)
    offset: int = schema.int64(default=-1)  # the metadata up to here contain the result
    reply: bytes = schema.bytes_()
