"""WriteTxnMarkers (key 27): the coordinator tells leaders how a transaction ended."""

from collections.abc import Sequence

from logstore import schema
from logstore.schema import message, struct


@struct
class WritableTxnMarkerTopic:
    name: str = schema.string()
    partition_indexes: Sequence[int] = schema.array(schema.int32)


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
