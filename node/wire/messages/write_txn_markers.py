"""WriteTxnMarkers (key 27): the coordinator informs leaders of the end of a transaction.

Tags from 10000 on are Ottla's own, and count between nodes that are proven: by them a leader recognizes a
late copy of a request whose connection was given up.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class WritableTxnMarkerTopic:
    name: str = schema.string()
    partition_indexes: Sequence[int] = schema.array(schema.int32)
    leader_epochs: Sequence[int] = schema.array(schema.int32, tag=10_000)  # as the sender knows them


@struct
class WritableTxnMarker:
    producer_id: int = schema.int64()
    producer_epoch: int = schema.int16()
    transaction_result: bool = schema.boolean()
    topics: Sequence[WritableTxnMarkerTopic] = schema.array(WritableTxnMarkerTopic)
    coordinator_epoch: int = schema.int32()
    transaction_version: int = schema.int8(since=2)


@message(api_key=27, versions=(1, 2), flexible_since=1)
class WriteTxnMarkersRequest:
    markers: Sequence[WritableTxnMarker] = schema.array(WritableTxnMarker)
    sender_epoch: int = schema.int64(tag=10_000, default=-1)  # of the sender's process: its broker epoch
    number: int = schema.int64(
        tag=10_001, default=-1
    )  # increases with each request of that process to this leader


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()


@struct
class WritableTxnMarkerTopicResult:
    name: str = schema.string()
    partitions: Sequence[WritableTxnMarkerPartitionResult] = schema.array(WritableTxnMarkerPartitionResult)


@struct
class WritableTxnMarkerResult:
    producer_id: int = schema.int64()
    topics: Sequence[WritableTxnMarkerTopicResult] = schema.array(WritableTxnMarkerTopicResult)


@message(api_key=27, versions=(1, 2), flexible_since=1)
class WriteTxnMarkersResponse:
    markers: Sequence[WritableTxnMarkerResult] = schema.array(WritableTxnMarkerResult)
