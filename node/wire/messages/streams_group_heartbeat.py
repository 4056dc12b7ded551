"""StreamsGroupHeartbeat (key 88): a member of a Streams group, its topology and its tasks (KIP-1071)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class KeyValue:
    key: str = schema.string()
    value: str = schema.string()


@struct
class TopicInfo:
    name: str = schema.string()
    partitions: int = schema.int32()
    replication_factor: int = schema.int16()
    topic_configs: Sequence[KeyValue] = schema.array(KeyValue)


@struct
class CopartitionGroup:
    source_topics: Sequence[int] = schema.array(schema.int16)
    source_topic_regex: Sequence[int] = schema.array(schema.int16)
    repartition_source_topics: Sequence[int] = schema.array(schema.int16)


@struct
class Subtopology:
    subtopology_id: str = schema.string()
    source_topics: Sequence[str] = schema.array(schema.string)
    source_topic_regex: Sequence[str] = schema.array(schema.string)
    state_changelog_topics: Sequence[TopicInfo] = schema.array(TopicInfo)
    repartition_sink_topics: Sequence[str] = schema.array(schema.string)
    repartition_source_topics: Sequence[TopicInfo] = schema.array(TopicInfo)
    copartition_groups: Sequence[CopartitionGroup] = schema.array(CopartitionGroup)


@struct
class Topology:
    epoch: int = schema.int32()
    subtopologies: Sequence[Subtopology] = schema.array(Subtopology)


@struct
class TaskIds:
    subtopology_id: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class Endpoint:
    host: str = schema.string()
    port: int = schema.uint16()


@struct
class TaskOffset:
    subtopology_id: str = schema.string()
    partition: int = schema.int32()
    offset: int = schema.int64()


@message(api_key=88, versions=(0, 1), flexible_since=0)
class StreamsGroupHeartbeatRequest:
    group_id: str = schema.string()
    member_id: str = schema.string()
    member_epoch: int = schema.int32()
    endpoint_information_epoch: int = schema.int32()
    instance_id: str | None = schema.string(nullable_since=0, default=None)
    rack_id: str | None = schema.string(nullable_since=0, default=None)
    rebalance_timeout_ms: int = schema.int32(default=-1)
    topology: Topology | None = schema.struct_(Topology, nullable_since=0, default=None)
    active_tasks: Sequence[TaskIds] | None = schema.array(TaskIds, nullable_since=0, default=None)
    standby_tasks: Sequence[TaskIds] | None = schema.array(TaskIds, nullable_since=0, default=None)
    warmup_tasks: Sequence[TaskIds] | None = schema.array(TaskIds, nullable_since=0, default=None)
    process_id: str | None = schema.string(nullable_since=0, default=None)
    user_endpoint: Endpoint | None = schema.struct_(Endpoint, nullable_since=0, default=None)
    client_tags: Sequence[KeyValue] | None = schema.array(KeyValue, nullable_since=0, default=None)
    task_offsets: Sequence[TaskOffset] | None = schema.array(TaskOffset, nullable_since=0, default=None)
    task_end_offsets: Sequence[TaskOffset] | None = schema.array(TaskOffset, nullable_since=0, default=None)
    shutdown_application: bool = schema.boolean()


@struct
class Status:
    status_code: int = schema.int8()
    status_detail: str = schema.string()


@struct
class TopicPartition:
    topic: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint = schema.struct_(Endpoint)
    active_partitions: Sequence[TopicPartition] = schema.array(TopicPartition)
    standby_partitions: Sequence[TopicPartition] = schema.array(TopicPartition)


@message(api_key=88, versions=(0, 1), flexible_since=0)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    member_id: str = schema.string()
    member_epoch: int = schema.int32()
    heartbeat_interval_ms: int = schema.int32()
    acceptable_recovery_lag_legacy: int = schema.int32(until=0)
    task_offset_interval_ms: int = schema.int32()
    acceptable_recovery_lag: int = schema.int64(since=1, default=-1)
    status: Sequence[Status] | None = schema.array(Status, nullable_since=0)
    active_tasks: Sequence[TaskIds] | None = schema.array(TaskIds, nullable_since=0, default=None)
    standby_tasks: Sequence[TaskIds] | None = schema.array(TaskIds, nullable_since=0, default=None)
    warmup_tasks: Sequence[TaskIds] | None = schema.array(TaskIds, nullable_since=0, default=None)
    topology_description_required: bool = schema.boolean(since=1)
    endpoint_information_epoch: int = schema.int32()
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = schema.array(
        EndpointToPartitions, nullable_since=0, default=None
    )
