"""DescribeQuorum (key 55): leader, voters and observers of the metadata quorum (KIP-595, KIP-836).

Tags from 10000 on are Ottla's own: a client that sends them is answered by a node that is cut off, too."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class PartitionDataRequest:
    partition_index: int = schema.int32()


@struct
class TopicDataRequest:
    topic_name: str = schema.string()
    partitions: Sequence[PartitionDataRequest] = schema.array(PartitionDataRequest)


@message(api_key=55, versions=(0, 2), flexible_since=0)
class DescribeQuorumRequest:
    topics: Sequence[TopicDataRequest] = schema.array(TopicDataRequest)
    accepts_old: bool = schema.boolean(tag=10_000)


@struct
class ReplicaState:
    replica_id: int = schema.int32()
    replica_directory_id: bytes = schema.uuid(since=2)
    log_end_offset: int = schema.int64()
    last_fetch_timestamp: int = schema.int64(since=1, default=-1)
    last_caught_up_timestamp: int = schema.int64(since=1, default=-1)
    is_disk_old: bool = schema.boolean(tag=10_000)  # no vote until it has all that it acknowledged
    is_disk_copied: bool = schema.boolean(tag=10_001)  # nor until a leader knows its possible promises


@struct
class PartitionDataResponse:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(since=2, nullable_since=2)
    leader_id: int = schema.int32()
    leader_epoch: int = schema.int32()
    high_watermark: int = schema.int64()
    current_voters: Sequence[ReplicaState] = schema.array(ReplicaState)
    observers: Sequence[ReplicaState] = schema.array(ReplicaState)


@struct
class TopicDataResponse:
    topic_name: str = schema.string()
    partitions: Sequence[PartitionDataResponse] = schema.array(PartitionDataResponse)


@struct
class Listener:
    name: str = schema.string()
    host: str = schema.string()
    port: int = schema.uint16()


@struct
class Node:
    node_id: int = schema.int32()
    listeners: Sequence[Listener] = schema.array(Listener)


@message(api_key=55, versions=(0, 2), flexible_since=0)
class DescribeQuorumResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(since=2, nullable_since=2)
    topics: Sequence[TopicDataResponse] = schema.array(TopicDataResponse)
    nodes: Sequence[Node] = schema.array(Node, since=2)
    cut_off_since_ms: int = schema.int64(tag=10_000, default=-1)  # of the node that answers
