"""AddRaftVoter (key 80): a node joins the metadata quorum as a voter (KIP-853)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class Listener:
    name: str = schema.string()
    host: str = schema.string()
    port: int = schema.uint16()


@message(api_key=80, versions=(0, 1), flexible_since=0)
class AddRaftVoterRequest:
    cluster_id: str | None = schema.string(nullable_since=0)
    timeout_ms: int = schema.int32()
    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid()
    listeners: Sequence[Listener] = schema.array(Listener)
    ack_when_committed: bool = schema.boolean(since=1, default=True)


@message(api_key=80, versions=(0, 1), flexible_since=0)
class AddRaftVoterResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
