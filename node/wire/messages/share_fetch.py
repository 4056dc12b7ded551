"""ShareFetch (key 78): acquire records of a share group, and acknowledge earlier ones (KIP-932)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AcknowledgementBatch:
    first_offset: int = schema.int64()
    last_offset: int = schema.int64()
    acknowledge_types: Sequence[int] = schema.array(schema.int8)


@struct
class FetchPartition:
    partition_index: int = schema.int32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = schema.array(AcknowledgementBatch)


@struct
class FetchTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[FetchPartition] = schema.array(FetchPartition)


@struct
class ForgottenTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(api_key=78, versions=(1, 2), flexible_since=0)
class ShareFetchRequest:
    group_id: str | None = schema.string(nullable_since=0, default=None)
    member_id: str | None = schema.string(nullable_since=0)
    share_session_epoch: int = schema.int32()
    max_wait_ms: int = schema.int32()
    min_bytes: int = schema.int32()
    max_bytes: int = schema.int32(default=2**31 - 1)
    max_records: int = schema.int32()
    batch_size: int = schema.int32()
    share_acquire_mode: int = schema.int8(since=2)
    is_renew_ack: bool = schema.boolean(since=2)
    topics: Sequence[FetchTopic] = schema.array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = schema.array(ForgottenTopic)


@struct
class LeaderIdAndEpoch:
    leader_id: int = schema.int32()
    leader_epoch: int = schema.int32()


@struct
class AcquiredRecords:
    first_offset: int = schema.int64()
    last_offset: int = schema.int64()
    delivery_count: int = schema.int16()


@struct
class PartitionData:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    acknowledge_error_code: int = schema.int16()
    acknowledge_error_message: str | None = schema.string(nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = schema.struct_(LeaderIdAndEpoch)
    records: schema.Records = schema.records()
    acquired_records: Sequence[AcquiredRecords] = schema.array(AcquiredRecords)


@struct
class ShareFetchableTopicResponse:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    rack: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=78, versions=(1, 2), flexible_since=0)
class ShareFetchResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = schema.int32()
    responses: Sequence[ShareFetchableTopicResponse] = schema.array(ShareFetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = schema.array(NodeEndpoint)
