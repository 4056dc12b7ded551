"""DescribeTransactions (key 65): state and partitions of transactions (KIP-664)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=65, versions=(0, 0), flexible_since=0)
class DescribeTransactionsRequest:
    transactional_ids: Sequence[str] = schema.array(schema.string)


@struct
class TopicData:
    topic: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class TransactionState:
    error_code: int = schema.int16()
    transactional_id: str = schema.string()
    transaction_state: str = schema.string()
    transaction_timeout_ms: int = schema.int32()
    transaction_start_time_ms: int = schema.int64()
    producer_id: int = schema.int64()
    producer_epoch: int = schema.int16()
    topics: Sequence[TopicData] = schema.array(TopicData)


@message(api_key=65, versions=(0, 0), flexible_since=0)
class DescribeTransactionsResponse:
    throttle_time_ms: int = schema.int32()
    transaction_states: Sequence[TransactionState] = schema.array(TransactionState)
