"""ElectLeaders (key 43): preferred or unclean elections (KIP-183, KIP-460)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class TopicPartitions:
    topic: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(api_key=43, versions=(0, 2), flexible_since=2)
class ElectLeadersRequest:
    election_type: int = schema.int8(since=1)
    topic_partitions: Sequence[TopicPartitions] | None = schema.array(TopicPartitions, nullable_since=0)
    timeout_ms: int = schema.int32(default=60000)


@struct
class PartitionResult:
    partition_id: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)


@struct
class ReplicaElectionResult:
    topic: str = schema.string()
    partition_result: Sequence[PartitionResult] = schema.array(PartitionResult)


@message(api_key=43, versions=(0, 2), flexible_since=2)
class ElectLeadersResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16(since=1)
    replica_election_results: Sequence[ReplicaElectionResult] = schema.array(ReplicaElectionResult)
