"""ShareAcknowledge (key 79): accept, release or reject acquired records (KIP-932)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AcknowledgementBatch:
    first_offset: int = schema.int64()
    last_offset: int = schema.int64()
    acknowledge_types: Sequence[int] = schema.array(schema.int8)


@struct
class AcknowledgePartition:
    partition_index: int = schema.int32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = schema.array(AcknowledgementBatch)


@struct
class AcknowledgeTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[AcknowledgePartition] = schema.array(AcknowledgePartition)


@message(api_key=79, versions=(1, 2), flexible_since=0)
class ShareAcknowledgeRequest:
    group_id: str | None = schema.string(nullable_since=0, default=None)
    member_id: str | None = schema.string(nullable_since=0)
    share_session_epoch: int = schema.int32()
    is_renew_ack: bool = schema.boolean(since=2)
    topics: Sequence[AcknowledgeTopic] = schema.array(AcknowledgeTopic)


@struct
class LeaderIdAndEpoch:
    leader_id: int = schema.int32()
    leader_epoch: int = schema.int32()


@struct
class PartitionData:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = schema.struct_(LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    rack: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=79, versions=(1, 2), flexible_since=0)
class ShareAcknowledgeResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = schema.int32(since=2)
    responses: Sequence[ShareAcknowledgeTopicResponse] = schema.array(ShareAcknowledgeTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = schema.array(NodeEndpoint)
