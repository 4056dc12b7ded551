"""AssignReplicasToDirs (key 73): a broker reports the disks of its replicas (KIP-858)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class PartitionDataRequest:
    partition_index: int = schema.int32()


@struct
class TopicDataRequest:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionDataRequest] = schema.array(PartitionDataRequest)


@struct
class DirectoryDataRequest:
    id: bytes = schema.uuid()
    topics: Sequence[TopicDataRequest] = schema.array(TopicDataRequest)


@message(api_key=73, versions=(0, 0), flexible_since=0)
class AssignReplicasToDirsRequest:
    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)
    directories: Sequence[DirectoryDataRequest] = schema.array(DirectoryDataRequest)


@struct
class PartitionDataResponse:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()


@struct
class TopicDataResponse:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionDataResponse] = schema.array(PartitionDataResponse)


@struct
class DirectoryDataResponse:
    id: bytes = schema.uuid()
    topics: Sequence[TopicDataResponse] = schema.array(TopicDataResponse)


@message(api_key=73, versions=(0, 0), flexible_since=0)
class AssignReplicasToDirsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    directories: Sequence[DirectoryDataResponse] = schema.array(DirectoryDataResponse)
