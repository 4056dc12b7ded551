"""ListPartitionReassignments (key 46): the reassignments in progress (KIP-455)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str = schema.string()
    partition_indexes: Sequence[int] = schema.array(schema.int32)


@message(api_key=46, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: int = schema.int32(default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = schema.array(
        ListPartitionReassignmentsTopics, nullable_since=0, default=None
    )


@struct
class OngoingPartitionReassignment:
    partition_index: int = schema.int32()
    replicas: Sequence[int] = schema.array(schema.int32)
    adding_replicas: Sequence[int] = schema.array(schema.int32)
    removing_replicas: Sequence[int] = schema.array(schema.int32)


@struct
class OngoingTopicReassignment:
    name: str = schema.string()
    partitions: Sequence[OngoingPartitionReassignment] = schema.array(OngoingPartitionReassignment)


@message(api_key=46, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    topics: Sequence[OngoingTopicReassignment] = schema.array(OngoingTopicReassignment)
