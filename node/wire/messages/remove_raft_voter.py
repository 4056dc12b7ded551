"""RemoveRaftVoter (key 81): a voter leaves the metadata quorum (KIP-853)."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=81, versions=(0, 0), flexible_since=0)
class RemoveRaftVoterRequest:
    cluster_id: str | None = schema.string(nullable_since=0)
    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid()


@message(api_key=81, versions=(0, 0), flexible_since=0)
class RemoveRaftVoterResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
