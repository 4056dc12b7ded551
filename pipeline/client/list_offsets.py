"""Offsets by time, and the ends of logs: one request to each leader, all sent before the first answer."""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.pipeline.client.answers import to_error
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.metadata import Cluster, Leader
from ottla.pipeline.client.retries import is_retriable

LATEST: Final = -1
EARLIEST: Final = -2
NO_OFFSET: Final = -1
_CLIENT: Final = -1  # the replica id of a client


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool | None = None
) -> dict[TopicPartition, int]:
    """Return for each partition the offset of its first record at or after a timestamp (ms).

    In place of a timestamp, EARLIEST asks for the log start, and LATEST for the last stable offset with
    `read_committed` (None: as `isolation.level` says), otherwise for the high watermark. The result lacks
    partitions without a record so late. Only partitions that change leaders are asked again. Raises TopicGone
    if a partition does not exist.
    """
    if read_committed is None:
        read_committed = cluster.settings.read_committed
    found: dict[TopicPartition, int] = {}
    left = dict(wanted)

    def attempt() -> None:
        problem: KafkaError | None = None
        for partition, outcome in _request_leaders(cluster, left, read_committed).items():
            if isinstance(outcome, KafkaError):
                cluster.forget_topic(partition.topic)
                if problem is None or not is_retriable(outcome):
                    problem = outcome
                continue
            del left[partition]
            if outcome != NO_OFFSET:
                found[partition] = outcome
        if problem is not None:
            raise problem

    cluster.retry(attempt)
    return found


def _request_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, int | KafkaError]:
    """Return the offset of each partition, or its error."""
    by_node: dict[int, dict[TopicPartition, Leader]] = {}
    for partition in wanted:
        leader = cluster.leader(partition)
        by_node.setdefault(leader.node_id, {})[partition] = leader
    outcomes: dict[TopicPartition, int | KafkaError] = {}
    sent: list[tuple[BrokerConnection, PendingRequest, Iterable[TopicPartition]]] = []
    for node_id, leaders in by_node.items():
        try:
            connection = cluster.connections.to(node_id, Purpose.CONTROL)
            sent.append(
                (connection, connection.send(_request(cluster, leaders, wanted, read_committed)), leaders)
            )
        except KafkaError as error:
            outcomes |= dict.fromkeys(leaders, error)
    for connection, pending, partitions in sent:
        try:
            outcomes |= _read(connection.receive(pending), partitions)
        except KafkaError as error:
            outcomes |= dict.fromkeys(partitions, error)
    return outcomes


def _request(
    cluster: Cluster,
    leaders: Mapping[TopicPartition, Leader],
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition, leader in leaders.items():
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=leader.epoch,
                timestamp=wanted[partition],
            )
        )
    return ListOffsetsRequest(
        replica_id=_CLIENT,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=those) for name, those in topics.items()],
        timeout_ms=cluster.settings.request_timeout_ms,
    )


def _read(
    response: ListOffsetsResponse, requested: Iterable[TopicPartition]
) -> dict[TopicPartition, int | KafkaError]:
    found: dict[TopicPartition, int | KafkaError] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            found[partition] = (
                to_error(one.error_code, f"offsets of {partition}") if one.error_code else one.offset
            )
    missing = {
        partition: KafkaError(ErrorCode.INVALID_REQUEST, f"the answer has no offset of {partition}")
        for partition in requested
        if partition not in found
    }
    return missing | {partition: found[partition] for partition in requested if partition in found}
