"""AddPartitionsToTxn (key 24): partitions become part of a transaction.

Clients speak versions to 3; from 4 on brokers verify in batches (KIP-890).
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = schema.string()
    producer_id: int = schema.int64()
    producer_epoch: int = schema.int16()
    verify_only: bool = schema.boolean()
    topics: Sequence[AddPartitionsToTxnTopic] = schema.array(AddPartitionsToTxnTopic)


@message(api_key=24, versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnRequest:
    transactions: Sequence[AddPartitionsToTxnTransaction] = schema.array(
        AddPartitionsToTxnTransaction, since=4
    )
    v3_and_below_transactional_id: str = schema.string(until=3)
    v3_and_below_producer_id: int = schema.int64(until=3)
    v3_and_below_producer_epoch: int = schema.int16(until=3)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = schema.array(AddPartitionsToTxnTopic, until=3)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = schema.int32()
    partition_error_code: int = schema.int16()


@struct
class AddPartitionsToTxnTopicResult:
    name: str = schema.string()
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = schema.array(
        AddPartitionsToTxnPartitionResult
    )


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = schema.string()
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = schema.array(AddPartitionsToTxnTopicResult)


@message(api_key=24, versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16(since=4)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = schema.array(
        AddPartitionsToTxnResult, since=4
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = schema.array(
        AddPartitionsToTxnTopicResult, until=3
    )
