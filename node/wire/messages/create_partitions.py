"""CreatePartitions (key 37): add partitions to topics (KIP-195)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: Sequence[int] = schema.array(schema.int32)


@struct
class CreatePartitionsTopic:
    name: str = schema.string()
    count: int = schema.int32()
    assignments: Sequence[CreatePartitionsAssignment] | None = schema.array(
        CreatePartitionsAssignment, nullable_since=0
    )


@message(api_key=37, versions=(0, 3), flexible_since=2)
class CreatePartitionsRequest:
    topics: Sequence[CreatePartitionsTopic] = schema.array(CreatePartitionsTopic)
    timeout_ms: int = schema.int32()
    validate_only: bool = schema.boolean()


@struct
class CreatePartitionsTopicResult:
    name: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=37, versions=(0, 3), flexible_since=2)
class CreatePartitionsResponse:
    throttle_time_ms: int = schema.int32()
    results: Sequence[CreatePartitionsTopicResult] = schema.array(CreatePartitionsTopicResult)
