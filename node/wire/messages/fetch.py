"""Fetch (key 1): record batches from partitions, for consumers and for followers.

Sessions since 7 (KIP-227), diverging epochs since 12 (KIP-595), topic ids since 13 (KIP-516).

`damage` is not Kafka's: with it a follower reports damaged batches to its leader. Readers skip tags that they
do not know, so it does not affect nodes of earlier versions and other programs.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct

DAMAGE_TAG = 10_000  # far above the tags that Apache Kafka has assigned
# The bits of `damage`.
OWN_LOG_IS_DAMAGED = 1  # the follower must not be in sync until it reports otherwise
LEADER_SENT_DAMAGE = 2  # the leader sent no whole batches for `fetch_offset`


@struct
class ReplicaState:
    replica_id: int = schema.int32(default=-1)
    replica_epoch: int = schema.int64(default=-1)


@struct
class FetchPartition:
    partition: int = schema.int32()
    current_leader_epoch: int = schema.int32(since=9, default=-1)
    fetch_offset: int = schema.int64()
    last_fetched_epoch: int = schema.int32(since=12, default=-1)
    log_start_offset: int = schema.int64(since=5, default=-1)
    partition_max_bytes: int = schema.int32()
    replica_directory_id: bytes = schema.uuid(tag=0, since=17)
    high_watermark: int = schema.int64(tag=1, since=18, default=2**63 - 1)
    damage: int = schema.int8(tag=DAMAGE_TAG, since=12)


@struct
class FetchTopic:
    topic: str = schema.string(until=12)
    topic_id: bytes = schema.uuid(since=13)
    partitions: Sequence[FetchPartition] = schema.array(FetchPartition)


@struct
class ForgottenTopic:
    topic: str = schema.string(until=12)
    topic_id: bytes = schema.uuid(since=13)
    partitions: Sequence[int] = schema.array(schema.int32)


@message(api_key=1, versions=(4, 18), flexible_since=12)
class FetchRequest:
    cluster_id: str | None = schema.string(tag=0, since=12, nullable_since=12, default=None)
    replica_id: int = schema.int32(until=14, default=-1)
    replica_state: ReplicaState = schema.struct_(ReplicaState, tag=1, since=15)
    max_wait_ms: int = schema.int32()
    min_bytes: int = schema.int32()
    max_bytes: int = schema.int32(default=2**31 - 1)
    isolation_level: int = schema.int8()
    session_id: int = schema.int32(since=7)
    session_epoch: int = schema.int32(since=7, default=-1)
    topics: Sequence[FetchTopic] = schema.array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = schema.array(ForgottenTopic, since=7)
    rack_id: str = schema.string(since=11)


@struct
class EpochEndOffset:
    epoch: int = schema.int32(default=-1)
    end_offset: int = schema.int64(default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = schema.int32(default=-1)
    leader_epoch: int = schema.int32(default=-1)


@struct
class SnapshotId:
    end_offset: int = schema.int64(default=-1)
    epoch: int = schema.int32(default=-1)


@struct
class AbortedTransaction:
    producer_id: int = schema.int64()
    first_offset: int = schema.int64()


@struct
class PartitionData:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    high_watermark: int = schema.int64()
    last_stable_offset: int = schema.int64(default=-1)
    log_start_offset: int = schema.int64(since=5, default=-1)
    diverging_epoch: EpochEndOffset = schema.struct_(EpochEndOffset, tag=0, since=12)
    current_leader: LeaderIdAndEpoch = schema.struct_(LeaderIdAndEpoch, tag=1, since=12)
    snapshot_id: SnapshotId = schema.struct_(SnapshotId, tag=2, since=12)
    aborted_transactions: Sequence[AbortedTransaction] | None = schema.array(
        AbortedTransaction, nullable_since=0
    )
    preferred_read_replica: int = schema.int32(since=11, default=-1)
    records: schema.Records | None = schema.records(nullable_since=0)


@struct
class FetchableTopicResponse:
    topic: str = schema.string(until=12)
    topic_id: bytes = schema.uuid(since=13)
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    rack: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=1, versions=(4, 18), flexible_since=12)
class FetchResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16(since=7)
    session_id: int = schema.int32(since=7)
    responses: Sequence[FetchableTopicResponse] = schema.array(FetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = schema.array(NodeEndpoint, tag=0, since=16)
