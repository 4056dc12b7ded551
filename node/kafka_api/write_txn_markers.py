"""WriteTxnMarkers: a transaction has ended, and its partitions are to hold a marker of that.

1 and 2; since 2 the coordinator says which version of transactions the producer's client speaks (KIP-1228).
Coordinators send it to leaders, administrators to abort a transaction that hangs. The answer has no place for
an error of its own, and names a producer once, however many markers of it were asked for.
"""

from collections.abc import Iterable
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from logstore.errors import ErrorCode
from logstore.topic_partition import TopicPartition
from node.kafka_api.request_context import Delayed, RequestContext
from node.net.connection_info import NO_PEER
from node.replica.partition import NO_EPOCH
from node.runtime.marker_writer import PEER_WAIT_MS, Codes, MarkedPartition, Marker
from node.runtime.turns import Steps, in_turns
from node.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: WriteTxnMarkersRequest) -> Any:
    return in_turns(_answer(broker, context, request), is_large=context.is_large)


def _answer(broker: "Broker", context: RequestContext, request: WriteTxnMarkersRequest) -> Steps[Any]:
    markers = [_marker(marker) for marker in request.markers]
    wait_ms = broker.config.request_timeout_ms
    peer_id = context.connection.peer_id
    if peer_id != NO_PEER and request.number >= 0:
        if broker.marker_writer.is_late(peer_id, request.sender_epoch, request.number):
            return _response(markers, [[ErrorCode.REQUEST_TIMED_OUT] * len(each[-1]) for each in markers])
        wait_ms = min(wait_ms, PEER_WAIT_MS)
    written = yield from broker.marker_writer.write(markers, wait_ms)
    if isinstance(written, Delayed):
        settle = written.answer
        return written._replace(answer=lambda outcome: _response(markers, settle(outcome)))
    return _response(markers, written)


def _marker(marker: WritableTxnMarker) -> Marker:
    return Marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        partitions=[
            MarkedPartition(topic.name, partition, epoch)
            for topic in marker.topics
            for partition, epoch in zip(topic.partition_indexes, _epochs(topic), strict=False)
        ],
    )


def _epochs(topic: WritableTxnMarkerTopic) -> Iterable[int]:
    """Those that the sender names, and NO_EPOCH for all others."""
    return chain(topic.leader_epochs, repeat(NO_EPOCH))


def _response(markers: list[Marker], codes: Codes) -> WriteTxnMarkersResponse:
    """Of several markers of a producer in one partition the last one tells what became of them."""
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker, of_marker in zip(markers, codes, strict=True):
        told = by_producer.setdefault(marker.producer_id, {})
        for named, code in zip(marker.partitions, of_marker, strict=True):
            told[TopicPartition(named.topic, named.partition)] = code
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(told))
            for producer_id, told in by_producer.items()
        ]
    )


def _topics(told: dict[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    by_topic: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in told.items():
        result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        by_topic.setdefault(topic, []).append(result)
    return [WritableTxnMarkerTopicResult(name=name, partitions=ones) for name, ones in by_topic.items()]
