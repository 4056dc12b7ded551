"""AlterReplicaLogDirs (key 34): move replicas between the disks of a broker (KIP-113)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class AlterReplicaLogDir:
    path: str = schema.string()
    topics: Sequence[AlterReplicaLogDirTopic] = schema.array(AlterReplicaLogDirTopic)


@message(api_key=34, versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsRequest:
    dirs: Sequence[AlterReplicaLogDir] = schema.array(AlterReplicaLogDir)


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = schema.string()
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = schema.array(AlterReplicaLogDirPartitionResult)


@message(api_key=34, versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = schema.int32()
    results: Sequence[AlterReplicaLogDirTopicResult] = schema.array(AlterReplicaLogDirTopicResult)
