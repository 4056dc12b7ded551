"""CreateTopics (key 19): new topics with their partitions, replicas and configs."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: int = schema.int32()
    broker_ids: Sequence[int] = schema.array(schema.int32)


@struct
class CreatableTopicConfig:
    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)


@struct
class CreatableTopic:
    name: str = schema.string()
    num_partitions: int = schema.int32()
    replication_factor: int = schema.int16()
    assignments: Sequence[CreatableReplicaAssignment] = schema.array(CreatableReplicaAssignment)
    configs: Sequence[CreatableTopicConfig] = schema.array(CreatableTopicConfig)


@message(api_key=19, versions=(2, 7), flexible_since=5)
class CreateTopicsRequest:
    topics: Sequence[CreatableTopic] = schema.array(CreatableTopic)
    timeout_ms: int = schema.int32(default=60000)
    validate_only: bool = schema.boolean()


@struct
class CreatableTopicConfigs:
    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)
    read_only: bool = schema.boolean()
    config_source: int = schema.int8(default=-1)
    is_sensitive: bool = schema.boolean()


@struct
class CreatableTopicResult:
    name: str = schema.string()
    topic_id: bytes = schema.uuid(since=7)
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    topic_config_error_code: int = schema.int16(tag=0, since=5)
    num_partitions: int = schema.int32(since=5, default=-1)
    replication_factor: int = schema.int16(since=5, default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = schema.array(
        CreatableTopicConfigs, since=5, nullable_since=5
    )


@message(api_key=19, versions=(2, 7), flexible_since=5)
class CreateTopicsResponse:
    throttle_time_ms: int = schema.int32()
    topics: Sequence[CreatableTopicResult] = schema.array(CreatableTopicResult)
