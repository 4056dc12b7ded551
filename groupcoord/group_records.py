"""Records of `__consumer_offsets` in Kafka's own schemas: offsets (0 and 1) and classic groups (2)."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct

OFFSETS_TOPIC = "__consumer_offsets"
OLDEST_OFFSET_KEY = 0  # with the layout of 1; written by Kafka before 0.9
OFFSET_KEY = 1
GROUP_METADATA_KEY = 2
NO_TIMESTAMP_MS = -1


@message(versions=(0, 0))
class OffsetCommitKey:
    group: str = schema.string()
    topic: str = schema.string()
    partition: int = schema.int32()


@message(versions=(0, 4), flexible_since=4)
class OffsetCommitValue:
    offset: int = schema.int64()
    leader_epoch: int = schema.int32(since=3, default=-1)
    metadata: str = schema.string()
    commit_timestamp: int = schema.int64()
    expire_timestamp: int = schema.int64(since=1, until=1, default=NO_TIMESTAMP_MS)
    topic_id: bytes = schema.uuid(since=4, tag=0)


@message(versions=(0, 0))
class GroupMetadataKey:
    group: str = schema.string()


@struct
class MemberMetadata:
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(since=3, nullable_since=3, default=None)
    client_id: str = schema.string()
    client_host: str = schema.string()
    rebalance_timeout: int = schema.int32(since=1, default=-1)
    session_timeout: int = schema.int32()
    subscription: bytes = schema.bytes_()
    assignment: bytes = schema.bytes_()


@message(versions=(0, 4), flexible_since=4)
class GroupMetadataValue:
    protocol_type: str = schema.string()
    generation: int = schema.int32()
    protocol: str | None = schema.string(nullable_since=0, default=None)
    leader: str | None = schema.string(nullable_since=0, default=None)
    current_state_timestamp: int = schema.int64(since=2, default=NO_TIMESTAMP_MS)
    members: Sequence[MemberMetadata] = schema.array(MemberMetadata)


class OffsetRecord(NamedTuple):
    """A committed offset; with `value` None, its tombstone."""

    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


class GroupMetadataRecord(NamedTuple):
    """A classic group as it became stable or empty; with `value` None, its tombstone."""

    group_id: str
    value: GroupMetadataValue | None
