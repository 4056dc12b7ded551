"""AlterPartition (key 56): a leader asks the controller for another set of in-sync replicas (KIP-497)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class BrokerState:
    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)


@struct
class PartitionDataRequest:
    partition_index: int = schema.int32()
    leader_epoch: int = schema.int32()
    new_isr: Sequence[int] = schema.array(schema.int32, until=2)
    new_isr_with_epochs: Sequence[BrokerState] = schema.array(BrokerState, since=3)
    leader_recovery_state: int = schema.int8()
    partition_epoch: int = schema.int32()


@struct
class TopicDataRequest:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionDataRequest] = schema.array(PartitionDataRequest)


@message(api_key=56, versions=(2, 3), flexible_since=0)
class AlterPartitionRequest:
    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)
    topics: Sequence[TopicDataRequest] = schema.array(TopicDataRequest)


@struct
class PartitionDataResponse:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    leader_id: int = schema.int32()
    leader_epoch: int = schema.int32()
    isr: Sequence[int] = schema.array(schema.int32)
    leader_recovery_state: int = schema.int8()
    partition_epoch: int = schema.int32()


@struct
class TopicDataResponse:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionDataResponse] = schema.array(PartitionDataResponse)


@message(api_key=56, versions=(2, 3), flexible_since=0)
class AlterPartitionResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    topics: Sequence[TopicDataResponse] = schema.array(TopicDataResponse)
