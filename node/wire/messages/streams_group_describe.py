"""StreamsGroupDescribe (key 89): state, topology, members and tasks of Streams groups (KIP-1071)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=89, versions=(0, 1), flexible_since=0)
class StreamsGroupDescribeRequest:
    group_ids: Sequence[str] = schema.array(schema.string)
    include_authorized_operations: bool = schema.boolean()
    include_topology_description: bool = schema.boolean(since=1)


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
class Subtopology:
    subtopology_id: str = schema.string()
    source_topics: Sequence[str] = schema.array(schema.string)
    repartition_sink_topics: Sequence[str] = schema.array(schema.string)
    state_changelog_topics: Sequence[TopicInfo] = schema.array(TopicInfo)
    repartition_source_topics: Sequence[TopicInfo] = schema.array(TopicInfo)


@struct
class Topology:
    epoch: int = schema.int32()
    subtopologies: Sequence[Subtopology] | None = schema.array(Subtopology, nullable_since=0, default=None)


@struct
class Endpoint:
    host: str = schema.string()
    port: int = schema.uint16()


@struct
class TaskOffset:
    subtopology_id: str = schema.string()
    partition: int = schema.int32()
    offset: int = schema.int64()


@struct
class TaskIds:
    subtopology_id: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class Assignment:
    active_tasks: Sequence[TaskIds] = schema.array(TaskIds)
    standby_tasks: Sequence[TaskIds] = schema.array(TaskIds)
    warmup_tasks: Sequence[TaskIds] = schema.array(TaskIds)


@struct
class Member:
    member_id: str = schema.string()
    member_epoch: int = schema.int32()
    instance_id: str | None = schema.string(nullable_since=0, default=None)
    rack_id: str | None = schema.string(nullable_since=0, default=None)
    client_id: str = schema.string()
    client_host: str = schema.string()
    topology_epoch: int = schema.int32()
    process_id: str = schema.string()
    user_endpoint: Endpoint | None = schema.struct_(Endpoint, nullable_since=0, default=None)
    client_tags: Sequence[KeyValue] = schema.array(KeyValue)
    task_offsets: Sequence[TaskOffset] = schema.array(TaskOffset)
    task_end_offsets: Sequence[TaskOffset] = schema.array(TaskOffset)
    assignment: Assignment = schema.struct_(Assignment)
    target_assignment: Assignment = schema.struct_(Assignment)
    is_classic: bool = schema.boolean()


@struct
class TopologyDescriptionNode:
    name: str = schema.string()
    node_type: int = schema.int8()
    source_topics: Sequence[str] = schema.array(schema.string)
    sink_topic: str | None = schema.string(nullable_since=0, default=None)
    stores: Sequence[str] = schema.array(schema.string)
    successors: Sequence[str] = schema.array(schema.string)


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: str = schema.string()
    nodes: Sequence[TopologyDescriptionNode] = schema.array(TopologyDescriptionNode)


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = schema.struct_(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = schema.struct_(TopologyDescriptionNode)


@struct
class TopologyDescription:
    subtopologies: Sequence[TopologyDescriptionSubtopology] = schema.array(TopologyDescriptionSubtopology)
    global_stores: Sequence[TopologyDescriptionGlobalStore] = schema.array(TopologyDescriptionGlobalStore)


@struct
class DescribedGroup:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    group_id: str = schema.string()
    group_state: str = schema.string()
    group_epoch: int = schema.int32()
    assignment_epoch: int = schema.int32()
    topology: Topology | None = schema.struct_(Topology, nullable_since=0, default=None)
    members: Sequence[Member] = schema.array(Member)
    authorized_operations: int = schema.int32(default=-(2**31))
    topology_description: TopologyDescription | None = schema.struct_(
        TopologyDescription, since=1, nullable_since=1, default=None
    )
    topology_description_status: int = schema.int8(since=1)
    assignor_name: str | None = schema.string(since=1, nullable_since=1, default=None)


@message(api_key=89, versions=(0, 1), flexible_since=0)
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = schema.int32()
    groups: Sequence[DescribedGroup] = schema.array(DescribedGroup)
