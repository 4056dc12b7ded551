"""Converts transaction markers to and from the wire (WriteTxnMarkers)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.replica.partition import NO_EPOCH
from ottla.node.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.node.work.turns import Steps


class MarkedPartition(NamedTuple):
    """One partition of a transaction."""

    topic: str
    partition: int
    leader_epoch: int = NO_EPOCH  # as the coordinator knows it, if it gives one


class Marker(NamedTuple):
    """The end of a transaction, to be written into some of its partitions."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: Sequence[MarkedPartition]


Codes: TypeAlias = list[list[ErrorCode]]  # for each marker, for each of its partitions
Answers: TypeAlias = Mapping[tuple[int, TopicPartition], ErrorCode]  # by producer id and partition


# ---- requests ----------------------------------------------------------------------------------------------


def to_wire(marker: Marker) -> WritableTxnMarker:
    by_topic: dict[str, list[MarkedPartition]] = {}
    for one in marker.partitions:
        by_topic.setdefault(one.topic, []).append(one)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        topics=[
            WritableTxnMarkerTopic(
                name=name,
                partition_indexes=[one.partition for one in named],
                leader_epochs=[one.leader_epoch for one in named],
            )
            for name, named in by_topic.items()
        ],
    )


def from_wire(request: WriteTxnMarkersRequest) -> Steps[list[Marker]]:
    markers = []
    for marker in request.markers:
        partitions = []
        for topic in marker.topics:
            for partition, epoch in zip(topic.partition_indexes, _epochs(topic), strict=False):
                partitions.append(MarkedPartition(topic.name, partition, epoch))
                yield
        markers.append(
            Marker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                partitions=partitions,
            )
        )
    return markers


def _epochs(topic: WritableTxnMarkerTopic) -> Iterable[int]:
    """Yield the leader epochs that the sender gives, then NO_EPOCH for ever."""
    return chain(topic.leader_epochs, repeat(NO_EPOCH))


# ---- answers -----------------------------------------------------------------------------------------------


def to_response(markers: Sequence[Marker], codes: Codes) -> WriteTxnMarkersResponse:
    """Return the response; of several markers of a producer in one partition, it has the last one's code."""
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker, of_marker in zip(markers, codes, strict=True):
        outcomes = by_producer.setdefault(marker.producer_id, {})
        for named, code in zip(marker.partitions, of_marker, strict=True):
            outcomes[TopicPartition(named.topic, named.partition)] = code
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(outcomes))
            for producer_id, outcomes in by_producer.items()
        ]
    )


def _topics(outcomes: dict[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    by_topic: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in outcomes.items():
        result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        by_topic.setdefault(topic, []).append(result)
    return [WritableTxnMarkerTopicResult(name=name, partitions=ones) for name, ones in by_topic.items()]


def answers_of(markers: Sequence[Marker], codes: Codes) -> Answers:
    """Return the answers of this node itself."""
    return {
        (marker.producer_id, TopicPartition(named.topic, named.partition)): code
        for marker, of_marker in zip(markers, codes, strict=True)
        for named, code in zip(marker.partitions, of_marker, strict=True)
    }


def from_response(response: WriteTxnMarkersResponse) -> Answers:
    """Return the answers of another node."""
    return {
        (marker.producer_id, TopicPartition(topic.name, one.partition_index)): _code(one.error_code)
        for marker in response.markers
        for topic in marker.topics
        for one in topic.partitions
    }


def _code(number: int) -> ErrorCode:
    """Return the error of a code; UNKNOWN_SERVER_ERROR if a node of a later release sent one unknown here."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
