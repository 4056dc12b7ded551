"""Metadata (key 3): brokers, topics, partitions and their leaders.

Version 0 requests all topics with an empty list, later versions with None. Topic ids since 10, look-up by id
since 12.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class MetadataRequestTopic:
    topic_id: bytes = schema.uuid(since=10)
    name: str | None = schema.string(nullable_since=10)


@message(api_key=3, versions=(0, 13), flexible_since=9)
class MetadataRequest:
    topics: Sequence[MetadataRequestTopic] | None = schema.array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = schema.boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = schema.boolean(since=8, until=10)
    include_topic_authorized_operations: bool = schema.boolean(since=8)


@struct
class MetadataResponseBroker:
    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    rack: str | None = schema.string(since=1, nullable_since=1, default=None)


@struct
class MetadataResponsePartition:
    error_code: int = schema.int16()
    partition_index: int = schema.int32()
    leader_id: int = schema.int32()
    leader_epoch: int = schema.int32(since=7, default=-1)
    replica_nodes: Sequence[int] = schema.array(schema.int32)
    isr_nodes: Sequence[int] = schema.array(schema.int32)
    offline_replicas: Sequence[int] = schema.array(schema.int32, since=5)


@struct
class MetadataResponseTopic:
    error_code: int = schema.int16()
    name: str | None = schema.string(nullable_since=12)
    topic_id: bytes = schema.uuid(since=10)
    is_internal: bool = schema.boolean(since=1)
    partitions: Sequence[MetadataResponsePartition] = schema.array(MetadataResponsePartition)
    topic_authorized_operations: int = schema.int32(since=8, default=-(2**31))


@message(api_key=3, versions=(0, 13), flexible_since=9)
class MetadataResponse:
    throttle_time_ms: int = schema.int32(since=3)
    brokers: Sequence[MetadataResponseBroker] = schema.array(MetadataResponseBroker)
    cluster_id: str | None = schema.string(since=2, nullable_since=2, default=None)
    controller_id: int = schema.int32(since=1, default=-1)
    topics: Sequence[MetadataResponseTopic] = schema.array(MetadataResponseTopic)
    cluster_authorized_operations: int = schema.int32(since=8, until=10, default=-(2**31))
    error_code: int = schema.int16(since=13)
